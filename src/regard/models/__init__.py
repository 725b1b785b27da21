"""One architecture a file, its config in a file of settings beside it."""
