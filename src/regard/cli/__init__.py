"""The command line: it parses arguments, calls the Python functions and prints results."""
