"""Suggest the next words of a text, or the rest of a word."""
