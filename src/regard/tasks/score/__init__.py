"""Measure how probable a text is: perplexity, bits per byte, surprisal of each token."""
