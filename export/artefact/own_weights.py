"""What decides a model of the reader's own: its files, its configuration, and the weights that it comes with."""

import hashlib
import json
from pathlib import Path

import torch

from attendant.config import config_to_json
from attendant.manifest import sha256_of
from models.checkpoints.custom_model import load_custom_model


def own_hashes(path: Path) -> dict[str, str]:
    """Run a file's ``model()`` and hash what comes of it.

    Returns:
        What is hashed → hexadecimal SHA-256.

    Raises:
        ArtefactError, ConfigError: the file has no whole model.
    """
    checkpoint = load_custom_model(path)
    digest = hashlib.sha256(json.dumps(config_to_json(checkpoint.config), sort_keys=True).encode())
    for name, tensor in checkpoint.model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    folder = path.resolve().parent
    code = {str(file.resolve().relative_to(folder)): sha256_of(file) for file in checkpoint.code}
    return {"weights": digest.hexdigest(), **code}
