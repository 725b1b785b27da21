"""The built-in world: text generated from a hand-written grammar, with the truth about every sentence."""
