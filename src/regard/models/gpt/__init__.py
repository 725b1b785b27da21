"""GPT: the decoder alone."""
