"""Predict the token at each [MASK] of a text, as BERT does."""
