"""From manifests to a Triton model repository."""
