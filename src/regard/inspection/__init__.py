"""Measurements on traces and models."""
