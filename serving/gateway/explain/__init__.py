"""What a model attends to, as maps and as pictures."""
