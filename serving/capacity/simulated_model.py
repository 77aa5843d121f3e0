"""A model whose runs compute nothing and take the time that a profile says; an engine schedules it as a real one.

Answers end at ``max_tokens``, which are drawn; there is one token, whose logit is 0.

Legend: B rows, T new positions, A attended positions, L scored positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attendant.signature import DType, GraphSignature, TensorSpec
from attendant.tensor_names import LOGITS
from serving.capacity.profile import Profile
from serving.capacity.served import Additions
from serving.capacity.virtual_clock import VirtualClock
from serving.engine.loaded_model import LoadedModel
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.token_rules import TokenRules
from serving.runtime.base import Array, Buffer, numpy_dtype

SOURCE = "source_ids"


def simulated(profile: Profile, clock: VirtualClock, additions: Additions) -> LoadedModel:
    """What an engine decodes with; its runs let the clock go on."""
    tokenizer = _DotTokenizer()
    return LoadedModel(
        decoder=SimulatedDecoder(profile, clock, additions),
        encoder=None if profile.encoder is None else SimulatedEncoder(profile, clock, additions),
        tokenizer=tokenizer,
        rules=TokenRules(),
        guides=Guides(tokenizer, 1, frozenset()),
    )


class SimulatedDecoder:
    """A decoder graph of a cache without content.

    Attributes:
        signature: of the same inputs as a real one's, of the smallest sizes.
    """

    def __init__(self, profile: Profile, clock: VirtualClock, additions: Additions) -> None:
        """Decode.

        Args:
            profile: what runs take.
            clock: that they let go on.
            additions: by what they take longer.
        """
        self.signature = _signature(profile.capacity)
        self._profile, self._clock = profile, clock
        self._decode_factor, self._prompt_factor = (
            additions.draws("decode_factor", 1),
            additions.draws("prompt_factor", 2),
        )

    def allocate(self, name: str, sizes: Mapping[str, int]) -> Buffer:
        """A buffer of zeros that takes no memory."""
        spec = self.signature.input(name)
        return _NoMemory(spec.shape(sizes), spec.dtype)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Let the time of a run pass; every logit is 0."""
        rows, width, attended = shape_of(feeds)
        scored = _shape(feeds["scored"])[1] if "scored" in feeds else width
        self._clock.work(self._seconds(rows, width, attended))
        return {LOGITS: _NoMemory((rows, scored, 1), "float32")}

    def _seconds(self, rows: int, width: int, attended: int) -> float:
        if width == 1:
            return self._profile.decoding_s(rows, attended) * self._decode_factor()
        return self._profile.reading_s(rows, width, attended) * self._prompt_factor()


class SimulatedEncoder:
    """An encoder graph of sources of any length.

    Attributes:
        signature: one input.
    """

    def __init__(self, profile: Profile, clock: VirtualClock, additions: Additions) -> None:
        """Encode.

        Args:
            profile: what runs take.
            clock: that they let go on.
            additions: by what they take longer.
        """
        source = TensorSpec(name=SOURCE, dtype="int64", axes=("batch", "source"))
        self.signature = GraphSignature(name="encoder", inputs=(source,), outputs=())
        self._profile, self._clock, self._factor = profile, clock, additions.draws("prompt_factor", 3)

    def allocate(self, name: str, sizes: Mapping[str, int]) -> Buffer:
        """A buffer of zeros that takes no memory."""
        spec = self.signature.input(name)
        return _NoMemory(spec.shape(sizes), spec.dtype)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Let the time of a run pass."""
        self._clock.work(self._profile.encoding_s(*_shape(feeds[SOURCE])) * self._factor())
        return {}


def shape_of(feeds: Mapping[str, Array | Buffer]) -> tuple[int, int, int]:
    """Of a decoder's run: rows, new positions of each, and the positions that the longest attends, 1 of an RNN."""
    rows, width = _shape(feeds["token_ids"])
    return rows, width, _shape(feeds["self_mask"])[3] if "self_mask" in feeds else 1


class _DotTokenizer:
    def encode(self, text: str, longest: int) -> list[int]:
        return [0] * len(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        return "." * len(token_ids)


class _NoMemory:
    address = nbytes = 0

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self._shape, self._dtype = shape, dtype

    def numpy(self) -> Array:
        return np.broadcast_to(np.zeros((), numpy_dtype(self._dtype)), self._shape)

    def write(self, array: Array) -> None:
        pass

    def part(self, begin: int, shape: tuple[int, ...]) -> _NoMemory:
        return _NoMemory(shape, self._dtype)

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        pass


def _signature(capacity: int | None) -> GraphSignature:
    names: list[tuple[str, DType, tuple[int | str, ...]]] = [("token_ids", "int64", ("batch", "steps"))]
    cache: tuple[str, DType, tuple[int | str, ...]] = ("self_00_state", "float32", ("batch", 1))
    if capacity is not None:
        cache = ("self_00_key", "float32", ("batch", 1, capacity, 1))
        names += [
            ("start", "int64", ("batch",)),
            ("self_mask", "bool", ("batch", 1, "steps", "attended")),
            ("scored", "int64", ("batch", "scored")),
        ]
    stem, dtype, axes = cache
    logits = TensorSpec(name=LOGITS, dtype="float32", axes=("batch", "steps" if capacity is None else "scored", 1))
    return GraphSignature(
        name="decoder",
        inputs=(
            *(TensorSpec(name=name, dtype=kind, axes=shape) for name, kind, shape in names),
            TensorSpec(name=f"{stem}_in", dtype=dtype, axes=axes),
        ),
        outputs=(logits, TensorSpec(name=f"{stem}_out", dtype=dtype, axes=axes)),
        aliases={f"{stem}_out": f"{stem}_in"},
    )


def _shape(feed: Array | Buffer) -> tuple[int, ...]:
    array = feed if isinstance(feed, np.ndarray) else feed.numpy()
    return tuple(array.shape)
