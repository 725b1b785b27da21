"""The compiled decoder for CPUs: numba kernels, the programs that they execute, and the thread pool that runs them."""
