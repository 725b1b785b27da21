"""Code that encoder tasks share: config, batching, inference, base objective and base predictor."""
