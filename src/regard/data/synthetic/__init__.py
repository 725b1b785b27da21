"""The built-in synthetic dataset: text generated from a hand-written grammar, with gold annotations."""
