"""The arrays of an explained answer → maps over the image, each with the layer and head that it is of.

    attention   what the class token of a layer looks at, one map a layer and head
    rollout     the layers multiplied
    received    what each place of a layer's map gets from its window, one map a layer
    occlusion   what the answer loses where the image is blanked, one map a label
    alignment   how each token of an answer read its source: of a caption, one map a token

Legend: L layers, H heads, S tokens of the image, T tokens of an answer, h and w rows and columns of a map.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attendant.errors import InputError
from attendant.tensor_names import ALIGNMENT
from clients.served_model import ServedModel
from clients.triton_client import Array

Kind = Literal["rollout", "attention", "received", "occlusion", "alignment"]
SELECTED_BY: dict[Kind, tuple[str, ...]] = {
    "rollout": (),
    "attention": ("layer", "head"),
    "received": ("layer",),
    "occlusion": ("label",),
    "alignment": (),
}
"""Kind → the fields of a request that choose among its maps."""
ATTENTION, ROLLOUT = "attention", "rollout"
_RECEIVED = re.compile(r"received_(\d+)")
_CLASS_TOKEN = 0


ALIGNED_TASKS = ("translate", "caption", "generate")
"""Whose models can show what their tokens read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """One map over an image.

    Attributes:
        title: in words.
        values: float32 ``[h, w]``.
        layer: from 1, where it is of one.
        head: from 1, where it is of one.
    """

    title: str
    values: Array
    layer: int | None = None
    head: int | None = None


def kinds_of(model: ServedModel) -> list[Kind]:
    """What can be shown of a model, the best first."""
    if model.task != "classify":  # a custom model may call its outputs as it likes
        return ["alignment"] if model.task in ALIGNED_TASKS and ALIGNMENT in model.outputs else []
    kinds: list[Kind] = [kind for kind in ("rollout", "attention") if kind in model.outputs]
    windows: list[Kind] = ["received"] if "received_1" in model.outputs else []
    return [*kinds, *windows, "occlusion"]


def classifier_maps(kind: Kind, arrays: Mapping[str, Array]) -> list[Map]:
    """The maps of one kind in the outputs of a classifier for one image, without the batch."""
    if kind == "rollout":
        return [Map(title="rollout", values=arrays[ROLLOUT])]
    if kind == "attention":
        return [
            Map(title=f"layer {layer}, head {head}", values=map_hw, layer=layer, head=head)
            for layer, layer_HSS in enumerate(arrays[ATTENTION], start=1)
            for head, map_hw in enumerate(_at_patches(layer_HSS[:, _CLASS_TOKEN]), start=1)
        ]
    layers = {int(found[1]): arrays[name] for name in arrays if (found := _RECEIVED.fullmatch(name))}
    return [Map(title=f"layer {layer}", values=layers[layer], layer=layer) for layer in sorted(layers)]


def token_maps(texts: Sequence[str], alignment: Array) -> list[Map]:
    """One map a token of a caption, of its alignment ``[T, S]`` to the patches, which fill a square."""
    if not texts:
        return []
    return [Map(title=text.strip(), values=one) for text, one in zip(texts, _at_patches(alignment), strict=True)]


def select_maps(maps: Sequence[Map], layer: int | None, head: int | None) -> list[Map]:
    """Those of a layer, of a head, or of both.

    Raises:
        InputError: there is none.
    """
    found = [one for one in maps if layer in (None, one.layer) and head in (None, one.head)]
    if not found:
        raise InputError(_find_ids(maps), f"layer {layer}, head {head}", "correct layer and head, or leave them out")
    return found


def require_grids(maps: Sequence[Map]) -> None:
    """Refuse maps that cannot be shown.

    Raises:
        ValueError: one has no rows and columns of finite numbers.
    """
    for one in maps:
        if one.values.ndim != 2 or not one.values.size or not np.isfinite(one.values).all():
            raise ValueError(f"rows and columns of finite numbers; found shape {one.values.shape} in {one.title!r}")


def _at_patches(weights: Array) -> Array:
    side = math.isqrt(weights.shape[-1])
    if side * side == weights.shape[-1]:
        return weights.reshape(-1, side, side)
    patches: Array = weights[:, -(math.isqrt(weights.shape[-1] - 1) ** 2) :]  # behind the class token
    return patches.reshape(len(weights), *[math.isqrt(patches.shape[-1])] * 2)


def _find_ids(maps: Sequence[Map]) -> str:
    layers, heads = (max((getattr(one, name) or 0 for one in maps), default=0) for name in ("layer", "head"))
    return f"a layer from 1 to {layers}" + (f" and a head from 1 to {heads}" if heads else " and no head")


def round_values(values: Array) -> list[float]:
    """Numbers with four digits behind the point, as nested lists: a map of a picture needs no more."""
    nested: list[float] = np.round(values.astype(np.float64), 4).tolist()
    return nested
