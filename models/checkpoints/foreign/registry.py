"""The foreign architectures that can be imported: one file each, and its name in the list here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.checkpoints.foreign.architecture import Architecture
from models.checkpoints.foreign.bart import BART
from models.checkpoints.foreign.bert import BERT
from models.checkpoints.foreign.gpt2 import GPT2
from models.checkpoints.foreign.llama import LLAMA, MISTRAL
from models.checkpoints.foreign.marian import MARIAN
from models.checkpoints.foreign.qwen import QWEN2, QWEN3
from models.checkpoints.foreign.t5 import T5
from models.checkpoints.foreign.vit import VIT
from models.errors import UnknownNameError

_EVERY = (GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, MARIAN, BART, T5, BERT, VIT)
ARCHITECTURES = {one.model_type: one for one in _EVERY}


def architecture_of(values: Mapping[str, Any]) -> Architecture:
    """The architecture that a ``config.json`` names.

    Raises:
        UnknownNameError: there is none of that type, or the folder holds another model of it, for instance with a
            classifier's head.
    """
    found = values.get("model_type")
    if not isinstance(found, str) or found not in ARCHITECTURES:
        supported = sorted(ARCHITECTURES)
        raise UnknownNameError(f"a model_type of {supported}", repr(found), "this architecture is not supported")
    architecture = ARCHITECTURES[found]
    classes = values.get("architectures") or []
    if classes and not set(classes) & set(architecture.classes):
        supported = list(architecture.classes)
        raise UnknownNameError(f"one of the architectures {supported}", str(classes), "this model is not supported")
    return architecture
