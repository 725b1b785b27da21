"""Turn texts into vectors that are close for similar meanings."""
