"""What is fixed before a kernel is compiled: heads, windows, tiles, targets. No file needs the Triton language."""
