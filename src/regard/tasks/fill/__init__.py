"""Predict the tokens behind each [MASK] of a text, as BERT does."""
