"""Answer a question with a span of a passage."""
