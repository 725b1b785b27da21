"""Choose the ending that best fits a text."""
