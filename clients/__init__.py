"""Python gRPC clients: light, asynchronous, one task a file."""
