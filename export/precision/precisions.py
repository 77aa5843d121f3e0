"""The precisions that a graph can be exported in, one record each.

What rewrites a graph is :mod:`export.precision.rewriting`.

Nothing here imports torch or onnx: a command line lists the names, and an unchanged export is known as such, without.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from attendant.errors import ConfigError, InputError
from attendant.signature import DType, GraphSignature, TensorSpec

PrecisionName = Literal["fp32", "fp16", "bf16", "int8", "int8-static", "int4", "int4-hqq", "int4-kv8"]
NAMES: tuple[PrecisionName, ...] = get_args(PrecisionName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How the numbers of an artefact's graphs are stored and computed.

    Attributes:
        name: how command lines call it.
        summary: what it is, in one sentence.
        roundoff: the largest relative error of a number rounded to its type; the ladder's tolerance grows with it.
        safety: how many times the error that follows from the roundoff is tolerated. Eight for float32, whose error is
            that of sums, which each runtime adds in another order; of numbers that are narrower than their sums, twice,
            as the largest of some thousand random errors varies.
        ort_cpu: whether ONNX Runtime's CPU provider has operators of its types.
        memory: element type of what graphs remember or hand to each other: caches, states, cross-attention memories.
        calibrated: whether its passes read what graphs compute from real inputs.
        tasks: what it is for; every task if none is named.
        reworded: tasks whose example may rightly be answered otherwise: the canary asks, and compares nothing.
    """

    name: PrecisionName
    summary: str
    roundoff: float
    safety: float = 8.0
    ort_cpu: bool = True
    memory: DType = "float32"
    calibrated: bool = False
    tasks: frozenset[str] = frozenset()
    reworded: frozenset[str] = frozenset()


_WRITERS = frozenset({"caption", "generate", "translate"})
_MEASURERS = frozenset({"embed", "predict"})
_EVERY = (
    Precision(name="fp32", summary="32-bit floating point, as trained", roundoff=2.0**-24),
    Precision(
        name="fp16",
        summary="16-bit floating point, sensitive operators in fp32; caches of half the size",
        roundoff=2.0**-11,
        safety=2.0,
        memory="float16",
        reworded=_MEASURERS,
    ),
    Precision(
        name="bf16",
        summary="bfloat16, the range of fp32 with 8 bits, sensitive operators in fp32; not for decoders on a CPU",
        roundoff=2.0**-8,
        safety=2.0,
        ort_cpu=False,
        memory="bfloat16",
        reworded=_MEASURERS,
    ),
    Precision(
        name="int8",
        summary="products in 8 bits, weights with a scale a column and activations with a scale a row",
        roundoff=0.5 / 127,
        safety=2.0,
        reworded=_MEASURERS,
    ),
    Precision(
        name="int8-static",
        summary="8-bit integers before every product with a weight, the scales of activations measured on real inputs",
        roundoff=2 / 127,  # half a step of the largest number; the usual one is a quarter of it
        safety=4.0,
        calibrated=True,
        reworded=_MEASURERS,
    ),
    Precision(
        name="int4",
        summary="weights of 4 bits with a scale for 256 of them, the last layer as in int8; for models that write",
        roundoff=0.5 / 8,
        safety=2.0,
        tasks=_WRITERS,
        reworded=_WRITERS,
    ),
    Precision(
        name="int4-hqq",
        summary="the same with a scale and a zero for 64, fitted to each other",
        roundoff=0.5 / 8,
        safety=2.0,
        tasks=_WRITERS,
        reworded=_WRITERS,
    ),
    Precision(
        name="int4-kv8",
        summary="as int4, the last layer too, and keys and values cached in 8 bits; for many rows at once",
        roundoff=0.5 / 8,
        safety=2.0,
        calibrated=True,
        tasks=_WRITERS,
        reworded=_WRITERS,
    ),
)
PRECISIONS: dict[str, Precision] = {precision.name: precision for precision in _EVERY}


def precision_named(name: str) -> Precision:
    """The record of a precision.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in PRECISIONS:
        raise ConfigError(f"a precision, one of {list(PRECISIONS)}", repr(name), "correct --precision")
    return PRECISIONS[name]


def require_calibrated(precision: Precision, calibration: Path | None) -> None:
    """Refuse samples for a precision that has no use for them.

    Raises:
        ConfigError: it measures nothing.
    """
    if calibration is not None and not precision.calibrated:
        users = ", ".join(one.name for one in PRECISIONS.values() if one.calibrated)
        raise ConfigError(f"a precision that is calibrated: {users}", precision.name, "leave --calibration out")


def require_task(precision: Precision, task: str) -> None:
    """Refuse a precision that is not for a task.

    Raises:
        InputError: it is for others.
    """
    fitting = [one.name for one in PRECISIONS.values() if not one.tasks or task in one.tasks]
    if precision.tasks and task not in precision.tasks:
        raise InputError(
            f"a model for {', '.join(sorted(precision.tasks))}, which {precision.name} is for",
            f"a model for {task}",
            f"choose another --precision: {', '.join(fitting)}",
        )


def described() -> str:
    """Every precision in its own words, for ``--help``."""
    return "precision of the graphs: " + "; ".join(f"{one.name}: {one.summary}" for one in PRECISIONS.values()) + "."


def signatures_in(precision: Precision, signatures: Iterable[GraphSignature]) -> tuple[GraphSignature, ...]:
    """The signatures of an artefact's graphs, with what they remember or hand to each other in the precision's type."""
    given = tuple(signatures)
    return tuple(_converted(signature, _remembered(given), precision.memory) for signature in given)


def _remembered(signatures: tuple[GraphSignature, ...]) -> set[str]:
    # What one graph returns and another takes, perhaps as a buffer's first content (serving.runtime.cached_decoder).
    returned = {spec.name for one in signatures for spec in one.outputs}
    taken = {spec.name for one in signatures for spec in one.inputs}
    handed = {name for name in returned if {name, f"{name}_in"} & taken}
    kept = {name for one in signatures for pair in one.aliases.items() for name in pair}
    return handed | kept


def _converted(signature: GraphSignature, remembered: set[str], dtype: DType) -> GraphSignature:
    def convert(spec: TensorSpec) -> TensorSpec:
        stored = spec.name in remembered and spec.dtype == "float32"
        return replace(spec, dtype=dtype) if stored else spec

    return replace(
        signature, inputs=tuple(map(convert, signature.inputs)), outputs=tuple(map(convert, signature.outputs))
    )
