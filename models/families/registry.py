"""Which architectures exist: name → configuration, module, the task that they serve, and its graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from models.errors import UnknownNameError
from models.families.decoder import Decoder, DecoderConfig
from models.families.encoder import Encoder, EncoderConfig
from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from models.families.t5 import T5, T5Config
from models.families.vit import ViT, ViTConfig
from models.tasks import classify, embed, generate, translate
from models.tasks.graph import TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture.

    Attributes:
        name: as configurations and manifests write it.
        task: what its models are for.
        config: the configuration class.
        build: from a configuration to a module with random weights.
        graphs: from a module to the graphs of its task, in the order in which a request passes them.
        details: from a configuration to what the server must know beyond the graphs.
    """

    name: str
    task: str
    config: type[Any]
    build: Callable[[Any], nn.Module]
    graphs: Callable[[Any], tuple[TaskGraph, ...]]
    details: Callable[[Any], dict[str, Any]]


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="seq2seq",
            task="translate",
            config=Seq2SeqConfig,
            build=Seq2SeqTransformer,
            graphs=translate.graphs,
            details=translate.details,
        ),
        Family(
            name="t5",
            task="translate",
            config=T5Config,
            build=T5,
            graphs=translate.graphs,
            details=translate.details,
        ),
        Family(
            name="decoder",
            task="generate",
            config=DecoderConfig,
            build=Decoder,
            graphs=generate.graphs,
            details=generate.details,
        ),
        Family(
            name="encoder",
            task="embed",
            config=EncoderConfig,
            build=Encoder,
            graphs=embed.graphs,
            details=embed.details,
        ),
        Family(
            name="vit",
            task="classify",
            config=ViTConfig,
            build=ViT,
            graphs=classify.graphs,
            details=classify.details,
        ),
    )
}


def family_named(name: str) -> Family:
    """The family of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if not isinstance(name, str) or name not in FAMILIES:
        raise UnknownNameError(f"a family, one of {sorted(FAMILIES)}", repr(name), "correct the name")
    return FAMILIES[name]
