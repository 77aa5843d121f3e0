"""Fused attention as TensorRT quick plugins: each brings its kernel as PTX, which travels inside the engine."""
