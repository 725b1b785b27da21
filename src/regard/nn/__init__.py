"""Layers shared by all models: attention, masks, positions, feed-forward, norms, KV caches, hooks."""
