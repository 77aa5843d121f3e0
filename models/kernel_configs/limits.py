"""Sizes that a kernel holds at most."""

MOST_POSITIONS = 2048
"""Of a source that additive attention reads: one program holds all its scores in registers."""
