"""Errors, configs and files: helpers that import nothing else of regard."""
