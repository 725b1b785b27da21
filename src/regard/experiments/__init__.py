"""Experiments that tie rooms together."""
