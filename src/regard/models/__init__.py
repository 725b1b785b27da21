"""One architecture a file, its Config on top."""
