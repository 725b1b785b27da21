"""The Transformer of 2017: encoder and decoder."""
