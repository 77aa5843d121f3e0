"""The tensors that every cached decoder's graph has: the new tokens, and the keys and values of its blocks.

The direction stands at the very end, behind a zero-padded index, because Triton pairs states by sort order
(triton-inference-server/server #8586).

Legend: B batch, G key and value heads, M cache capacity, D head size.
"""

from torch import Tensor

from attendant.signature import TensorSpec
from models.layers.kv_cache import KeysValues

_PARTS = ("key", "value")
SCORED = "scored"
"""The input that says which tokens get logits, and its axis."""

NEW_TOKENS = (
    TensorSpec(name="token_ids", dtype="int64", axes=("batch", "steps")),
    TensorSpec(name="start", dtype="int64", axes=("batch",)),
    TensorSpec(name="self_mask", dtype="bool", axes=("batch", 1, "steps", "attended")),
    TensorSpec(name=SCORED, dtype="int64", axes=("batch", SCORED)),
)
"""What moves on from step to step: tokens, where they go, what they see, and which of them get logits."""


def largest(capacity: int) -> dict[str, int]:
    """The largest size of each varying axis of :data:`NEW_TOKENS`, for a cache of that capacity."""
    return {"steps": capacity, "attended": capacity, SCORED: capacity}


def below(vocabulary_size: int) -> dict[str, int]:
    """What the integers among :data:`NEW_TOKENS` are below; of any number of tokens, the first can be scored."""
    return {"token_ids": vocabulary_size, SCORED: 1}


def stems(kind: str, layers: int) -> list[str]:
    """The names ``<kind>_00_key``, ``<kind>_00_value``, ``<kind>_01_key`` and so on."""
    return [f"{kind}_{layer:02d}_{part}" for layer in range(layers) for part in _PARTS]


def specs(kind: str, layers: int, axes: tuple[int | str, ...], suffix: str = "") -> tuple[TensorSpec, ...]:
    """A specification for the keys and one for the values of every block."""
    return tuple(TensorSpec(name=stem + suffix, dtype="float32", axes=axes) for stem in stems(kind, layers))


def aliases(kind: str, layers: int) -> dict[str, str]:
    """The outputs that are written into inputs."""
    return {f"{stem}_out": f"{stem}_in" for stem in stems(kind, layers)}


def flat(pairs: list[KeysValues]) -> list[Tensor]:
    """Keys and values of every block as one list."""
    return [tensor for pair in pairs for tensor in pair]


def pair_keys_and_values(tensors: tuple[Tensor, ...]) -> list[KeysValues]:
    """The inverse of :func:`flat`."""
    return list(zip(tensors[::2], tensors[1::2], strict=True))
