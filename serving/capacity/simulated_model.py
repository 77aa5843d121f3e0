"""A model whose runs compute nothing and take the time that a profile says; an engine schedules it as a real one.

Answers end at ``max_tokens``, which are drawn; there is one token, whose logit is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attendant.signature import DType, GraphSignature, TensorSpec
from attendant.tensor_names import LOGITS
from serving.capacity.profile import ReplicaProfile
from serving.engine.loaded_model import LoadedModel
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.token_rules import TokenRules
from serving.runtime.base import Array, Buffer, numpy_dtype

SOURCE = "source_ids"


class VirtualClock:
    """Seconds since the start of a simulation; only work and idling move it.

    Attributes:
        now_s: the time.
        worked_s: of it, how long something was run.
    """

    def __init__(self) -> None:
        self.now_s = self.worked_s = 0.0

    def __call__(self) -> float:
        """The time, as an engine reads it."""
        return self.now_s

    def work(self, seconds: float) -> None:
        """Let a run take its time."""
        self.now_s += seconds
        self.worked_s += seconds


class SimulatedDecoder:
    """A decoder graph of a cache without content.

    Attributes:
        signature: of the same inputs as a real one's, of the smallest sizes.
    """

    def __init__(self, profile: ReplicaProfile, clock: VirtualClock) -> None:
        """Decode.

        Args:
            profile: what runs take.
            clock: that they move.
        """
        self.signature = _create_signature(profile.capacity)
        self._profile, self._clock = profile, clock

    def allocate(self, name: str, sizes: Mapping[str, int]) -> Buffer:
        """A buffer of zeros that takes no memory."""
        spec = self.signature.input(name)
        return _EmptyBuffer(spec.shape(sizes), spec.dtype)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Let the time of a run pass; every logit is 0."""
        rows, width = _shape(feeds["token_ids"])
        attended = _shape(feeds["self_mask"])[3] if "self_mask" in feeds else 1
        scored = _shape(feeds["scored"])[1] if "scored" in feeds else width
        if width == 1:
            self._clock.work(self._profile.decode_s(rows, attended))
        else:
            self._clock.work(self._profile.prefill_s(rows, width, attended))
        return {LOGITS: _EmptyBuffer((rows, scored, 1), "float32")}


class SimulatedEncoder:
    """An encoder graph of sources of any length.

    Attributes:
        signature: one input.
    """

    def __init__(self, profile: ReplicaProfile, clock: VirtualClock) -> None:
        """Encode.

        Args:
            profile: what runs take.
            clock: that they move.
        """
        source = TensorSpec(name=SOURCE, dtype="int64", axes=("batch", "source"))
        self.signature = GraphSignature(name="encoder", inputs=(source,), outputs=())
        self._profile, self._clock = profile, clock

    def allocate(self, name: str, sizes: Mapping[str, int]) -> Buffer:
        """A buffer of zeros that takes no memory."""
        spec = self.signature.input(name)
        return _EmptyBuffer(spec.shape(sizes), spec.dtype)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Let the time of a run pass."""
        self._clock.work(self._profile.encode_s(*_shape(feeds[SOURCE])))
        return {}


def create_model(profile: ReplicaProfile, clock: VirtualClock) -> LoadedModel:
    """What an engine decodes with; its runs move the clock."""
    tokenizer = _DotTokenizer()
    return LoadedModel(
        decoder=SimulatedDecoder(profile, clock),
        encoder=None if profile.encoder is None else SimulatedEncoder(profile, clock),
        tokenizer=tokenizer,
        rules=TokenRules(),
        guides=Guides(tokenizer, 1, frozenset()),
    )


class _DotTokenizer:
    byte_tokens = frozenset[int]()

    def encode(self, text: str, longest: int) -> list[int]:
        return [0] * len(text)

    def offsets(self, text: str) -> list[int]:
        return []

    def decode(self, token_ids: Sequence[int]) -> str:
        return "." * len(token_ids)

    def token_bytes(self, token: int) -> bytes:
        return b"."

    def most_characters(self, longest: int) -> int:
        return longest


class _EmptyBuffer:
    address = nbytes = 0

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self._shape, self._dtype = shape, dtype

    def numpy(self) -> Array:
        return np.broadcast_to(np.zeros((), numpy_dtype(self._dtype)), self._shape)

    def write(self, array: Array) -> None:
        pass

    def part(self, begin: int, shape: tuple[int, ...]) -> _EmptyBuffer:
        return _EmptyBuffer(shape, self._dtype)

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        pass


def _create_signature(capacity: int | None) -> GraphSignature:
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
