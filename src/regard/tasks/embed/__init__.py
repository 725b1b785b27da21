"""Embed texts: one vector for each text or token, and cosine similarities."""
