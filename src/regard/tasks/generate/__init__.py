"""Continue a text: train a language model on plain text, and generate with it."""
