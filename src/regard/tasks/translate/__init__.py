"""Translate a sentence."""
