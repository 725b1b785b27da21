"""Bricks that know no model: attention, masks, positions, feed-forward, norms, caches, taps."""
