"""From a checkpoint to ONNX graphs with a manifest, and the proof that they compute the same."""
