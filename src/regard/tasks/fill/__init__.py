"""Fill [MASK]: pre-train a BERT on plain text, and predict masked tokens with it."""
