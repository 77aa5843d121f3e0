"""The foreign architectures that can be imported: one file each, and its name in the list here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attendant.errors import UnknownNameError
from models.checkpoints.importers.architecture import Architecture
from models.checkpoints.importers.bart import BART
from models.checkpoints.importers.bert import BERT
from models.checkpoints.importers.deit import DEIT
from models.checkpoints.importers.gpt2 import GPT2
from models.checkpoints.importers.llama import LLAMA, MISTRAL
from models.checkpoints.importers.marian import MARIAN
from models.checkpoints.importers.qwen import QWEN2, QWEN3
from models.checkpoints.importers.swin import SWIN
from models.checkpoints.importers.swin_v2 import SWIN_V2
from models.checkpoints.importers.t5 import T5
from models.checkpoints.importers.timesformer import TIMESFORMER
from models.checkpoints.importers.timm import is_timm
from models.checkpoints.importers.timm_swin import TIMM_SWIN, TIMM_SWIN_V2
from models.checkpoints.importers.timm_tnt import TIMM_TNT
from models.checkpoints.importers.timm_vit import TIMM_DEIT, TIMM_HYBRID, TIMM_VIT
from models.checkpoints.importers.vision_encoder_decoder import VISION_ENCODER_DECODER
from models.checkpoints.importers.vit import VIT

_EVERY = (
    GPT2,
    LLAMA,
    MISTRAL,
    QWEN2,
    QWEN3,
    MARIAN,
    BART,
    T5,
    BERT,
    VIT,
    SWIN,
    SWIN_V2,
    TIMESFORMER,
    VISION_ENCODER_DECODER,
    TIMM_TNT,
    DEIT,
    TIMM_VIT,
    TIMM_DEIT,
    TIMM_HYBRID,
    TIMM_SWIN,
    TIMM_SWIN_V2,
)
ARCHITECTURES = {one.model_type: one for one in _EVERY if one.library == "transformers"}
TIMM_ARCHITECTURES = {name: one for one in _EVERY if one.library == "timm" for name in one.classes}


def architecture_of(values: Mapping[str, Any]) -> Architecture:
    """The architecture that a ``config.json`` names.

    Raises:
        UnknownNameError: there is none of that type, or the folder holds another model of it, for instance with a
            classifier's head.
    """
    if is_timm(values):
        return _chosen(values["architecture"], TIMM_ARCHITECTURES, "an architecture of timm's, one of")
    architecture = _chosen(values.get("model_type"), ARCHITECTURES, "a model_type of")
    classes = values.get("architectures") or []
    if classes and not set(classes) & set(architecture.classes):
        supported = list(architecture.classes)
        raise UnknownNameError(f"one of the architectures {supported}", str(classes), "this model is not supported")
    return architecture


def _chosen(found: Any, supported: Mapping[str, Architecture], expected: str) -> Architecture:
    if not isinstance(found, str) or found not in supported:
        raise UnknownNameError(f"{expected} {sorted(supported)}", repr(found), "this architecture is not supported")
    return supported[found]
