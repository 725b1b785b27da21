"""Errors, configs and files: helpers that import nothing else from regard."""
