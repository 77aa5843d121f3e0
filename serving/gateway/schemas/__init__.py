"""What requests and responses look like, one resource a file."""
