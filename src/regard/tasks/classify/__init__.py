"""Classify a text: one label or several."""
