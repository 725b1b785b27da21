"""Suggest the next words of a text, with a model of the task generate."""
