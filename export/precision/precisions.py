"""The precisions that a graph can be exported in, one record each.

What rewrites a graph is :mod:`export.precision.rewriting`.

Nothing here imports torch or onnx: a command line lists the names, and an unchanged export is known as such, without.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from attendant.errors import ConfigError, InputError
from attendant.signature import DType, GraphSignature, TensorSpec
from attendant.tasks import TASKS
from export.precision.budget import Budget

PrecisionName = Literal["fp32", "fp16", "bf16", "fp8", "int8", "int8-static", "int4", "int4-hqq", "int4-kv8"]
NAMES: tuple[PrecisionName, ...] = get_args(PrecisionName)
PrefillName = Literal["int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How the numbers of an artefact's graphs are stored and computed.

    Attributes:
        name: how command lines call it.
        summary: what it is, in one sentence.
        roundoff: the largest relative error of a number rounded to its type; the tolerance of its parity grows with it.
        safety: how many times the error that follows from the roundoff is tolerated. Eight for float32, whose error is
            that of sums, which each runtime adds in another order; of numbers that are narrower than their sums, twice,
            as the largest of some thousand random errors varies.
        budget: how much of a model's answers it may cost.
        bytes_per_weight: of its products.
        runtimes: of a CPU, those that ``auto`` chooses among; ``onnxruntime`` is missing where it lacks operators (1.31
            has no MatMul of bfloat16, among others); nothing updates caches then.
        memory: element type of what graphs remember or hand to each other: caches, states, cross-attention memories.
        calibrated: whether its passes read what graphs compute from real inputs.
        tasks: what it is for; every task if none is named.
        reworded: tasks whose example may rightly be answered otherwise: of a text the canary compares nothing, of
            values it looks for nonsense.
        prefill: the precisions in which prompts may be read over the same caches, faster.
    """

    name: PrecisionName
    summary: str
    roundoff: float
    safety: float = 8.0
    budget: Budget
    bytes_per_weight: float = 4.0
    runtimes: tuple[str, ...] = ("onnxruntime", "openvino")
    memory: DType = "float32"
    calibrated: bool = False
    tasks: frozenset[str] = frozenset()
    reworded: frozenset[str] = frozenset()
    prefill: tuple[PrefillName, ...] = ()

    @property
    def ort_cpu(self) -> bool:
        """Whether ONNX Runtime's CPU provider has operators of its types."""
        return "onnxruntime" in self.runtimes

    def in_manifest(self) -> dict[str, Any]:
        """What of it travels with an artefact: fields of :class:`attendant.manifest.Manifest`."""
        return {"precision": self.name, "runtimes": self.runtimes, "bytes_per_weight": self.bytes_per_weight}


_MORE_EXACT = "where more is lost than the task can bear, export in a more exact precision:"
_WRITERS = frozenset(task.name for task in TASKS.values() if task.answers == "text")
_MEASURERS = frozenset(task.name for task in TASKS.values() if task.answers == "values")
_EVERY = (
    Precision(
        name="fp32",
        summary="32-bit floating point, as trained",
        roundoff=2.0**-24,
        budget=Budget(
            drift=1e-4,
            kl=1e-6,
            top1=0.999,
            loss=0.1,
            why="The same numbers added in another order; what is beyond is no rounding.",
            remedy="suspect the weights first and the runtime second, and export again",
        ),
    ),
    Precision(
        name="fp16",
        summary="16-bit floating point, sensitive operators in fp32; caches of half the size",
        roundoff=2.0**-11,
        safety=2.0,
        memory="float16",
        reworded=_MEASURERS,
        bytes_per_weight=2.0,
        budget=Budget(
            drift=0.005,
            kl=1e-5,
            top1=0.995,
            loss=0.3,
            why="11 bits of every number: one first choice in thousands stands so near to another that it changes.",
            remedy=f"{_MORE_EXACT} fp32; values beyond 65504 are what fp16 cannot hold, and bf16 can",
        ),
    ),
    Precision(
        name="bf16",
        summary="bfloat16, the range of fp32 with 8 bits, sensitive operators in fp32; not for decoders on a CPU",
        roundoff=2.0**-8,
        safety=2.0,
        memory="bfloat16",
        reworded=_MEASURERS,
        bytes_per_weight=2.0,
        runtimes=("openvino",),
        budget=Budget(
            drift=0.04,
            kl=0.0005,
            top1=0.97,
            loss=0.6,
            why="8 bits of every number, sums and sensitive places in fp32.",
            remedy=f"{_MORE_EXACT} fp16 or fp32",
        ),
    ),
    Precision(
        name="fp8",
        summary="8-bit floating point (E4M3) in wide products with weights, with scales measured on real inputs, the "
        "rest as in fp16; for TensorRT: a CPU computes it no faster than fp16",
        roundoff=2.0**-4,
        safety=2.0,
        memory="float16",
        calibrated=True,
        reworded=_MEASURERS,
        bytes_per_weight=1.0,
        runtimes=("onnxruntime",),
        budget=Budget(
            drift=0.1,
            kl=0.012,
            top1=0.88,
            loss=0.6,
            why="About twice what the most sensitive shipped checkpoint loses; 0.6 points are two of 360 images.",
            remedy=f"{_MORE_EXACT} fp16; or calibrate with inputs that are more like those that it is asked",
        ),
    ),
    Precision(
        name="int8",
        summary="products in 8 bits, weights with a scale a column and activations with a scale a row",
        roundoff=0.5 / 127,
        safety=2.0,
        reworded=_MEASURERS,
        bytes_per_weight=1.0,
        runtimes=("onnxruntime",),
        budget=Budget(
            drift=0.05,
            kl=0.003,
            top1=0.95,
            loss=0.6,
            why="About twice what the most sensitive shipped checkpoint loses; 0.6 points are two of 360 images.",
            remedy=f"{_MORE_EXACT} fp16 or fp32",
        ),
    ),
    Precision(
        name="int8-static",
        summary="8-bit integers before every product with a weight, the scales of activations measured on real inputs",
        roundoff=2 / 127,  # half a step of the largest number; the usual one is a quarter of it
        safety=4.0,
        calibrated=True,
        reworded=_MEASURERS,
        bytes_per_weight=1.0,
        budget=Budget(
            drift=0.1,
            kl=0.02,
            top1=0.9,
            loss=1.0,
            why="One scale for all rows of an activation, chosen beforehand: it fits none of them as well as its own.",
            remedy=f"{_MORE_EXACT} int8; or calibrate with inputs that are more like those that it is asked",
        ),
    ),
    Precision(
        name="int4",
        summary="weights of 4 bits with a scale for 256 of them, the last layer as in int8; for models that write",
        roundoff=0.5 / 8,
        safety=2.0,
        tasks=_WRITERS,
        reworded=_WRITERS,
        bytes_per_weight=0.5,
        prefill=("int8",),
        runtimes=("onnxruntime",),
        budget=Budget(
            drift=0.3,
            kl=0.1,
            top1=0.75,
            loss=1.5,
            why="About twice what the most sensitive shipped checkpoint loses: of a text, one first choice in seven.",
            remedy=f"{_MORE_EXACT} int4-hqq or int8",
        ),
    ),
    Precision(
        name="int4-hqq",
        summary="the same with a scale and a zero for 64, fitted to each other",
        roundoff=0.5 / 8,
        safety=2.0,
        tasks=_WRITERS,
        reworded=_WRITERS,
        bytes_per_weight=0.5,
        prefill=("int8",),
        runtimes=("onnxruntime",),
        budget=Budget(
            drift=0.3,
            kl=0.08,
            top1=0.75,
            loss=1.5,
            why="As int4, with nearer probabilities, by a zero point and a scale for 64 weights.",
            remedy=f"{_MORE_EXACT} int8",
        ),
    ),
    Precision(
        name="int4-kv8",
        summary="as int4, the last layer too, and keys and values cached in 8 bits; for many rows at once",
        roundoff=0.5 / 8,
        safety=2.0,
        calibrated=True,
        tasks=_WRITERS,
        reworded=_WRITERS,
        bytes_per_weight=0.5,
        prefill=("int8",),
        runtimes=("onnxruntime",),
        budget=Budget(
            drift=0.3,
            kl=0.1,
            top1=0.75,
            loss=1.5,
            why="As int4: what 8 bits of keys and values lose is little beside 4 bits of weights.",
            remedy=f"{_MORE_EXACT} int4 or int8; or calibrate with texts that are more like those that it is asked",
        ),
    ),
)
PRECISIONS: dict[str, Precision] = {precision.name: precision for precision in _EVERY}


_OF_NUMBERS: tuple[PrecisionName, ...] = ("fp32", "fp16", "bf16")
_KEEPING: dict[int, tuple[PrecisionName, ...]] = {4: ("int4", "int4-kv8"), 8: ("int8",)}
"""Bits of a checkpoint's weights → the precisions that keep their levels and scales."""


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


def require_prefill(precision: Precision, prefill: str) -> None:
    """Refuse a precision in which another's prompts are not read.

    Raises:
        ConfigError: it is no such one.
    """
    if prefill not in precision.prefill:
        users = ", ".join(one.name for one in PRECISIONS.values() if prefill in one.prefill)
        expected = (
            f"one of {', '.join(precision.prefill)} to read prompts in"
            if precision.prefill
            else (f"a precision whose prompts are read in another: {users or 'int4'}")
        )
        raise ConfigError(expected, f"--prefill {prefill} beside {precision.name}", "leave --prefill out")


def require_task(precision: Precision, task: str) -> None:
    """Refuse a precision that is not for a task.

    Raises:
        InputError: it is for others.
    """
    fitting = [one.name for one in PRECISIONS.values() if not one.tasks or task in one.tasks]
    if precision.tasks and task not in precision.tasks:
        remedy = f"choose another --precision: {', '.join(fitting)}"
        tasks = ", ".join(sorted(precision.tasks))
        raise InputError(
            f"a model for {tasks}, which {precision.name} is for",
            f"a model for {task}",
            remedy,
            message=f"precision {precision.name} is for models that {tasks}; this one can {task}; {remedy}",
        )


def require_keeping(precision: Precision, bits: int) -> None:
    """Refuse to quantise once more, and otherwise, what a checkpoint has in integers.

    Args:
        precision: of the export.
        bits: of the checkpoint's weights.

    Raises:
        InputError: the precision neither keeps its levels nor computes with the numbers that they stand for.
    """
    fitting = (*_OF_NUMBERS, *_KEEPING.get(bits, ()))
    if precision.name not in fitting:
        raise InputError(
            f"a precision for weights that are integers of {bits} bits already: {', '.join(fitting)}",
            precision.name,
            "choose one of these, or import the unquantised checkpoint",
        )


def describe_precisions() -> str:
    """Every precision in its own words, for ``--help``."""
    return "precision of the graphs: " + "; ".join(f"{one.name}: {one.summary}" for one in PRECISIONS.values()) + "."


def signatures_in(precision: Precision, signatures: Iterable[GraphSignature]) -> tuple[GraphSignature, ...]:
    """The signatures of an artefact's graphs, with what they remember or hand to each other in the precision's type."""
    given = tuple(signatures)
    return tuple(_convert(signature, _shared_tensors(given), precision.memory) for signature in given)


def _shared_tensors(signatures: tuple[GraphSignature, ...]) -> set[str]:
    # What one graph returns and another takes, perhaps as a buffer's first content (serving.runtime.cached_decoder).
    returned = {spec.name for one in signatures for spec in one.outputs}
    taken = {spec.name for one in signatures for spec in one.inputs}
    handed = {name for name in returned if {name, f"{name}_in"} & taken}
    kept = {name for one in signatures for pair in one.aliases.items() for name in pair}
    return handed | kept


def _convert(signature: GraphSignature, remembered: set[str], dtype: DType) -> GraphSignature:
    def convert(spec: TensorSpec) -> TensorSpec:
        stored = spec.name in remembered and spec.dtype == "float32"
        return replace(spec, dtype=dtype) if stored else spec

    return replace(
        signature, inputs=tuple(map(convert, signature.inputs)), outputs=tuple(map(convert, signature.outputs))
    )
