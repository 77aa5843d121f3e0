"""The whole road in one command: export, prove, serve, and answer real questions over gRPC."""
