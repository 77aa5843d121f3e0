"""Which architectures exist: name → configuration, module, and the task that they serve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from attendant.errors import unknown_name
from models.families.decoder import Decoder, DecoderConfig
from models.families.deit import DistilledViT
from models.families.encoder import Encoder, EncoderConfig
from models.families.hybrid_vit import HybridViT, HybridViTConfig
from models.families.rnn_captioner import RecurrentCaptioner, RecurrentCaptionerConfig
from models.families.rnn_seq2seq import RecurrentSeq2Seq, RecurrentSeq2SeqConfig
from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from models.families.swin import Swin, SwinConfig
from models.families.swin_v2 import SwinV2, SwinV2Config
from models.families.t5 import T5, T5Config
from models.families.timesformer import TimeSformer, TimeSformerConfig
from models.families.tnt import TNT, TNTConfig
from models.families.vision_seq2seq import VisionSeq2Seq, VisionSeq2SeqConfig
from models.families.vit import ViT, ViTConfig
from models.tasks import caption, caption_recurrent, classify, embed, generate, translate, translate_recurrent
from models.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture.

    Attributes:
        name: as configurations and manifests write it.
        task: what its models are for.
        config: the configuration class.
        build: from a configuration to a module with random weights.
    """

    name: str
    task: Task
    config: type[Any]
    build: Callable[[Any], nn.Module]


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="rnn_seq2seq", task=translate_recurrent.TASK, config=RecurrentSeq2SeqConfig, build=RecurrentSeq2Seq
        ),
        Family(name="seq2seq", task=translate.TASK, config=Seq2SeqConfig, build=Seq2SeqTransformer),
        Family(name="t5", task=translate.TASK, config=T5Config, build=T5),
        Family(name="decoder", task=generate.TASK, config=DecoderConfig, build=Decoder),
        Family(name="encoder", task=embed.TASK, config=EncoderConfig, build=Encoder),
        Family(
            name="rnn_captioner",
            task=caption_recurrent.TASK,
            config=RecurrentCaptionerConfig,
            build=RecurrentCaptioner,
        ),
        Family(name="vision_seq2seq", task=caption.TASK, config=VisionSeq2SeqConfig, build=VisionSeq2Seq),
        Family(name="vit", task=classify.TASK, config=ViTConfig, build=ViT),
        Family(name="deit", task=classify.TASK, config=ViTConfig, build=DistilledViT),
        Family(name="hybrid_vit", task=classify.TASK, config=HybridViTConfig, build=HybridViT),
        Family(name="tnt", task=classify.TASK, config=TNTConfig, build=TNT),
        Family(name="timesformer", task=classify.TASK, config=TimeSformerConfig, build=TimeSformer),
        Family(name="swin", task=classify.TASK, config=SwinConfig, build=Swin),
        Family(name="swin_v2", task=classify.TASK, config=SwinV2Config, build=SwinV2),
    )
}


def family_named(name: str) -> Family:
    """The family of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if not isinstance(name, str) or name not in FAMILIES:
        raise unknown_name("family", name, FAMILIES, f"the families are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[name]
