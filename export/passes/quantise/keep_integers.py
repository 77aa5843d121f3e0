"""Products whose matrices the checkpoint itself holds in integers keep its very levels and scales.

    8 bits, a scale a column        as :mod:`export.passes.quantise.quantise_dynamic` writes them
    otherwise                       as :mod:`export.passes.quantise.quantise_weights` does, in the checkpoint's blocks

Products that the checkpoint has in floating point keep theirs. What is written stands for the same numbers as the
matrix that it takes the place of, to the last bit, or counts as missed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer, products_of
from export.passes.ort.pack_products import BETWEEN
from export.passes.quantise.block_quantisers import Blocks
from export.passes.quantise.quantise_dynamic import Row, multiply_integers
from export.passes.quantise.quantise_weights import multiply_blocks

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMatrix:
    """A graph's weight that its checkpoint holds in integers.

    Attributes:
        kind: equal for those that can be put beside each other.
        read: it, [in, out].
    """

    kind: tuple[object, ...]
    read: Callable[[], Blocks]


Kept = Mapping[str, KeptMatrix]
"""The name of a graph's weight → the same in integers."""


@dataclass(frozen=True)
class KeepIntegers(Rewrite):
    """Rewrite every product whose matrix is kept.

    Attributes:
        kept: by the names of weights, before any are packed.
    """

    kept: Kept

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape, rows = Tape(graph), dict[ir.Value, Row]()
        sums = dict[int, dict[ir.Value, ir.Value]]()
        for product in products_of(graph):
            blocks, name = self._read(str(product.weight.name)), product.weight.name
            if blocks is None:
                result.kept += [] if product.is_last else [f"{product.name}: float32, as in the checkpoint"]
                continue
            if not np.array_equal(blocks.dequantise(), product.matrix()):
                result.missed.append(f"{product.name}: its matrix is not what the checkpoint's integers stand for")
                continue
            if blocks.levels.dtype == np.int8 and len(blocks.scale) == 1:
                weight = add_initializer(graph, f"{name}.int8", blocks.levels)
                scale = add_initializer(graph, f"{name}.scale", blocks.scale[0])
                multiply_integers(tape, graph, product, weight, scale, rows)
            else:
                size = blocks.block_size
                multiply_blocks(tape, graph, product, blocks, size, sums.setdefault(size, {}))
            result.fired += 1

    def _read(self, name: str) -> Blocks | None:
        parts = name.split(BETWEEN)
        if not all(part in self.kept for part in parts):
            return None
        return join_columns([self.kept[part].read() for part in parts])


def join_columns(every: list[Blocks]) -> Blocks:
    """Matrices of one kind beside each other."""

    def join(parts: list[AnyArray | None]) -> AnyArray | None:
        present = [part for part in parts if part is not None]
        return np.concatenate(present, axis=1) if present else None

    levels, scale = join([one.levels for one in every]), join([one.scale for one in every])
    assert levels is not None and scale is not None
    zero, minimum = join([one.zero for one in every]), join([one.minimum for one in every])
    return Blocks(levels=levels, scale=scale, zero=zero, minimum=minimum)
