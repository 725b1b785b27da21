"""Choose the ending that fits a context best, as in SWAG."""
