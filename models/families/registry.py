"""Which architectures exist: name → configuration, module and the task that they serve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from models.errors import UnknownNameError
from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from models.families.vit import ViT, ViTConfig


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture.

    Attributes:
        name: as configurations and manifests write it.
        task: what its models are for.
        config: the configuration class.
        build: from a configuration to a module with random weights.
    """

    name: str
    task: str
    config: type[Any]
    build: Callable[[Any], nn.Module]


FAMILIES = {
    family.name: family
    for family in (
        Family("seq2seq", "translate", Seq2SeqConfig, Seq2SeqTransformer),
        Family("vit", "classify", ViTConfig, ViT),
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
