"""What a model is for: one task a file, with the graphs that it needs and the signature of each."""
