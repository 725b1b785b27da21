"""Score a text: perplexity, bits per byte and the surprise of each token, with a model of the task generate."""
