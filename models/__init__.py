"""Reference models in pure PyTorch, and the contract that every artefact made from them carries."""
