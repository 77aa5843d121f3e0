"""The traps of a Triton model repository and of a server's command line, one rule a trap."""
