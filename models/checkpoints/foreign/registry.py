"""The foreign architectures that can be imported: one file each, and its name in the list here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.checkpoints.foreign.architecture import Architecture
from models.checkpoints.foreign.bart import BART
from models.checkpoints.foreign.bert import BERT
from models.checkpoints.foreign.deit import DEIT
from models.checkpoints.foreign.gpt2 import GPT2
from models.checkpoints.foreign.llama import LLAMA, MISTRAL
from models.checkpoints.foreign.marian import MARIAN
from models.checkpoints.foreign.qwen import QWEN2, QWEN3
from models.checkpoints.foreign.swin import SWIN
from models.checkpoints.foreign.swin_v2 import SWIN_V2
from models.checkpoints.foreign.t5 import T5
from models.checkpoints.foreign.timesformer import TIMESFORMER
from models.checkpoints.foreign.timm import is_timm
from models.checkpoints.foreign.timm_swin import TIMM_SWIN, TIMM_SWIN_V2
from models.checkpoints.foreign.timm_tnt import TIMM_TNT
from models.checkpoints.foreign.timm_vit import TIMM_DEIT, TIMM_HYBRID, TIMM_VIT
from models.checkpoints.foreign.vision_encoder_decoder import VISION_ENCODER_DECODER
from models.checkpoints.foreign.vit import VIT
from models.errors import UnknownNameError

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
