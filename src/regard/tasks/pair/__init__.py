"""Classify a pair of texts: a label, or a number such as their similarity."""
