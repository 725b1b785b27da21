"""Continue a text."""
