"""BERT: an encoder-only Transformer."""
