"""Label a text: one label, or several."""
