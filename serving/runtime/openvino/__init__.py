import attendant  # noqa: F401  it turns OpenVINO's telemetry off, which must be before its import
