"""Answer a question about a passage with a span of the passage."""
