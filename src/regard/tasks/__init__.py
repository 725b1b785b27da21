"""What a model is for: one file a task, from examples to the object that answers text."""
