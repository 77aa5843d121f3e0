"""Calibration: what a graph's activations reach on real inputs, before they are rounded to integers."""
