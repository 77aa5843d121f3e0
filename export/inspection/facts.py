"""What inspection finds of an artefact: operators, weights by type, where the time goes, what a cache takes, files.

    bytes of the cache = B · Σ over cached tensors of (product of the other axes) · (bytes of an element)

Legend: B batch, M positions that the cache holds.
"""

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import onnx

from attendant.manifest import Manifest
from attendant.signature import GraphSignature, TensorSpec
from export.targets.constraints.graph import type_word
from serving.runtime.ort.node_times import NodeProfile

BATCHES = (1, 8, 32, 128)
_BITS = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One initializer."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return math.ceil(self.count * bits(self.dtype) / 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What a graph keeps from call to call.

    Attributes:
        tensors: what it remembers.
        positions: M; 0 where what is remembered does not grow.
    """

    tensors: tuple[TensorSpec, ...]
    positions: int

    def nbytes(self, batch: int, positions: int | None = None) -> int:
        """Bytes for a batch, with the capacity that the artefact has or another one."""
        total = sum(math.prod(spec.shape({"batch": batch})) * bits(spec.dtype) // 8 for spec in self.tensors)
        return total if positions is None else total * positions // self.positions

    @property
    def formula(self) -> str:
        """The bytes as a product, one term a shape: tensors × axes × bytes of an element."""
        apart = [spec.axes[1:2] + spec.axes[3:] if self.positions else spec.axes[1:] for spec in self.tensors]
        shapes = Counter((axes, spec.dtype) for axes, spec in zip(apart, self.tensors, strict=True))
        terms = (
            f"{count} × {' × '.join(map(str, axes))} × {bits(dtype) // 8} bytes"
            for (axes, dtype), count in shapes.items()
        )
        return f"B × {'M × ' if self.positions else ''}(" + " + ".join(terms) + ")"

    @property
    def capacities(self) -> tuple[int, ...]:
        """M to show sizes for: a quarter and a half of what the artefact has, and all of it."""
        return tuple(sorted({max(1, self.positions // part) for part in (4, 2, 1)})) if self.positions else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One question to one graph.

    Attributes:
        name: prompt, step or call.
        sizes: the size of each varying axis.
        profile: what the runtime recorded.
    """

    name: str
    sizes: dict[str, int]
    profile: NodeProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFacts:
    """One graph.

    Attributes:
        signature: its inputs and outputs.
        opset: the version of the standard.
        operators: operator → nodes, most frequent first.
        weights: largest first.
        cache: what it keeps; none where it keeps nothing.
        timings: where the time goes.
        untimed: why that was not measured; empty where it was.
    """

    signature: GraphSignature
    opset: int
    operators: dict[str, int]
    weights: tuple[Weight, ...]
    cache: Cache | None
    timings: tuple[Timing, ...]
    untimed: str

    @property
    def by_type(self) -> dict[str, tuple[int, int, int]]:
        """Element type → tensors, numbers and bytes; most bytes first."""
        sums: dict[str, tuple[int, int, int]] = {}
        for weight in self.weights:
            tensors, numbers, nbytes = sums.get(weight.dtype, (0, 0, 0))
            sums[weight.dtype] = tensors + 1, numbers + weight.count, nbytes + weight.nbytes
        return dict(sorted(sums.items(), key=lambda entry: -entry[1][2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactFacts:
    """An artefact: what its manifest says, its graphs, and file name → bytes."""

    manifest: Manifest
    graphs: tuple[GraphFacts, ...]
    files: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """The facts as plain JSON values."""
        return {
            "name": self.manifest.name,
            "task": self.manifest.task,
            "family": self.manifest.family,
            "versions": self.manifest.versions,
            "precision": self.manifest.precision,
            "files": self.files,
            "graphs": {facts.signature.name: _to_json(facts) for facts in self.graphs},
        }


def bits(dtype: str) -> int:
    """How many bits an element of a type takes."""
    if dtype in _BITS:
        return _BITS[dtype]
    types = {type_word(number): number for number in onnx.TensorProto.DataType.values()}
    return int(onnx.helper.tensor_dtype_to_np_dtype(types[dtype]).itemsize) * 8


def _to_json(facts: GraphFacts) -> dict[str, Any]:
    cache = facts.cache
    return {
        "opset": facts.opset,
        "operators": facts.operators,
        "precision": {
            dtype: {"tensors": tensors, "numbers": numbers, "bytes": nbytes}
            for dtype, (tensors, numbers, nbytes) in facts.by_type.items()
        },
        "weights": [{**asdict(weight), "bytes": weight.nbytes} for weight in facts.weights],
        "cache": cache
        and {
            "formula": cache.formula,
            "positions": cache.positions,
            "bytes": {str(batch): cache.nbytes(batch) for batch in BATCHES},
        },
        "timings": [asdict(timing) for timing in facts.timings],
        "untimed": facts.untimed,
    }
