"""What tasks on an encoder share: config, batching, inference, the base objective and the base predictor."""
