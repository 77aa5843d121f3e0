"""Rewrites of a graph, one a file; each says how often it fired, and why it did not where it might have."""
