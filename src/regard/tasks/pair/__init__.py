"""Judge two texts: a label or, with --regression, a number."""
