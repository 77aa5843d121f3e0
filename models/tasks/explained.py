"""The graph ``explained``: what a plain graph computes, and beside it what it attends to.

    of a classifier over tokens    pixels → logits, attention [B, L, H, S, S], rollout [B, rows, columns]
    of one over windows            pixels → logits, received_1 … received_n [B, h, w], one a layer
    of a decoder with a source     as the decoder, and behind its logits cross_attention [B, L, H, T, S]
    of a language model            as the decoder, and behind its logits self_attention [B, H, T, A], of the last layer

A recurrent decoder shows its alignment in any case.

Legend: B batch, L layers, H heads, S tokens or source positions, T target positions, A attended cache positions,
h and w height and width of a map.
Source: see :mod:`models.explain.rollout` and :mod:`models.explain.windows`.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from attendant.signature import TensorSpec
from attendant.tensor_names import CROSS_ATTENTION, EXPLAINED, SELF_ATTENTION
from models.explain.images import among_patches, patch_map
from models.explain.observe import observe
from models.explain.rollout import rollout
from models.explain.windows import received_in
from models.task_graph import TaskGraph, nothing_to_explain


def explained_classifier(plain: TaskGraph) -> TaskGraph:
    """The graph of a classifier with its explanation; the maps are as large as the model makes them.

    Raises:
        ConfigError: the model is neither over tokens nor over windows.
    """
    over = getattr(plain.module, "attends_over", None)
    if over is None:
        nothing_to_explain(plain.module)
    module = TokensShown(plain.module) if over == "tokens" else WindowsShown(plain.module)
    (pixels,) = plain.signature.inputs
    with torch.no_grad():
        _, *shown = module(torch.zeros(pixels.shape({"batch": 1})))
    names = ["attention", "rollout"]
    if isinstance(module, WindowsShown):
        names = [f"received_{layer}" for layer in range(1, len(shown) + 1)]
    specs = [
        TensorSpec(name=name, dtype="float32", axes=("batch", *tensor.shape[1:]))
        for name, tensor in zip(names, shown, strict=True)
    ]
    signature = replace(plain.signature, name=EXPLAINED, outputs=(*plain.signature.outputs, *specs))
    return replace(plain, signature=signature, module=module)


def explained_decoder(plain: TaskGraph) -> TaskGraph:
    """The graph of a Transformer's cached decoder with the weights by which it reads the source."""
    crosses = [spec for spec in plain.signature.inputs if spec.name.startswith("cross_")]
    batch, heads, source, _ = crosses[0].axes
    spec = TensorSpec(name=CROSS_ATTENTION, dtype="float32", axes=(batch, len(crosses) // 2, heads, "steps", source))
    logits, *caches = plain.signature.outputs
    signature = replace(plain.signature, name=EXPLAINED, outputs=(logits, spec, *caches))
    return replace(plain, signature=signature, module=CrossAttentionShown(plain.module))


def explained_language_model(plain: TaskGraph, layers: int, heads: int) -> TaskGraph:
    """The graph of a language model's cached decoder with the weights of its last layer, all others as they are."""
    spec = TensorSpec(name=SELF_ATTENTION, dtype="float32", axes=("batch", heads, "steps", "attended"))
    logits, *caches = plain.signature.outputs
    signature = replace(plain.signature, name=EXPLAINED, outputs=(logits, spec, *caches))
    return replace(plain, signature=signature, module=LastAttentionShown(plain.module, layers))


class TokensShown(nn.Module):
    """A classifier over tokens, with every layer's weights and their rollout."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> list[Tensor]:
        with observe(self.model, among_patches(self.model)) as maps:
            logits = self.model(pixels)
        weights = [one for calls in maps.values() for one in calls]
        return [logits, torch.stack(weights, dim=1), patch_map(rollout(weights))]


class WindowsShown(nn.Module):
    """A classifier over windows, with what each place of each layer's map receives."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> list[Tensor]:
        with observe(self.model) as maps:
            logits = self.model(pixels)
        return [logits, *received_in(self.model, maps).values()]


class CrossAttentionShown(nn.Module):
    """The graph of a cached decoder, with its cross-attention behind its logits."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, token_ids: Tensor, *others: Tensor) -> list[Tensor]:
        with observe(self.decoder, inside="cross_attention") as maps:
            logits, *caches = self.decoder(token_ids, *others)
        return [logits, torch.stack([one for calls in maps.values() for one in calls], dim=1), *caches]


class LastAttentionShown(nn.Module):
    """The graph of a cached decoder of some layers, with the last one's self-attention behind its logits.

    The sums are computed as in the plain graph: its answers are the same, and its caches may be kept in 8 bits.
    """

    def __init__(self, decoder: nn.Module, layers: int) -> None:
        super().__init__()
        self.decoder = decoder
        self.layer = f"blocks.{layers - 1}."

    def forward(self, token_ids: Tensor, *others: Tensor) -> list[Tensor]:
        with observe(self.decoder, inside=self.layer, beside=True) as maps:
            logits, *caches = self.decoder(token_ids, *others)
        ((weights_BHTA,),) = maps.values()
        return [logits, weights_BHTA, *caches]
