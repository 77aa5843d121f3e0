"""Trained weights in and out of folders."""
