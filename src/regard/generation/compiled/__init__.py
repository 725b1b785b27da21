"""The compiled decoder for CPUs: numba kernels, the programs they run, and the threads that run them."""
