import attendant  # noqa: F401  it turns ONNX Runtime's telemetry off, which must be before its import
