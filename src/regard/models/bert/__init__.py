"""BERT: the encoder alone."""
