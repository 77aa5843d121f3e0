"""Weights of products in 8 or 4 bits as TensorRT reads them; activations stay floating-point.

    before    MatMul(x, W)
    after     MatMul(x, DequantizeLinear(q, s))                W ≈ s q, s > 0

With 8 bits s is [out], a scale a column. With 4 it is [blocks, out], and a block is 128 numbers where they divide the
column, else 64: TensorRT has no other sizes, so a matrix whose columns neither divides gets 8 bits, and the result
names it. The parser takes a block's size to be the quotient of both lengths, and reads no attribute. Scales are
numbers of the type in which activations are computed, so that nothing is rounded later. A table of embeddings that is
also a weight stays for lookups what it was: the parser takes a Gather of floats alone.

Legend: W and q are [in, out].
Source: onnx-tensorrt, onnxOpImporters.cpp, QuantDequantLinearHelper: "Scale coefficients must all be positive";
TensorRT's guide, quantization schemes: 4-bit integers have "per-block scales" of "{64, 128}".
"""

from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import Product, add_initializer, beyond_products, products_of, replace_product
from export.passes.quantise.block_quantisers import Blocks, positive
from export.passes.quantise.keep_integers import Kept

BLOCK_SIZES = (128, 64)
"""Of 4 bits, the larger first."""
LEAST_INPUTS = 8
"""Narrower products are left alone: the scale of a column is as large as four of its weights."""


@dataclass(frozen=True)
class QuantiseWeightsOnly(Rewrite):
    """Rewrite every product of an activation with a constant matrix.

    Attributes:
        bits: 8 or 4; 8 too where no block of 4 divides a column, which ``kept`` names.
        dtype: of the numbers that scales can be.
        last_only: whether only products that are outputs of the graph are rewritten.
        kept: which weights the checkpoint holds in integers: they keep levels and scales where TensorRT reads such,
            and are put in 8 bits where not; others, but the last, stay as they are then.
    """

    bits: int = 8
    dtype: ir.DataType = ir.DataType.FLOAT16
    last_only: bool = False
    kept: Kept = field(default_factory=dict)

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        result.refused += [] if self.last_only else beyond_products(graph)
        tape = Tape(graph)
        for product in products_of(graph):
            if self.last_only and not product.is_last:
                continue
            inputs = product.sizes[0]
            if inputs < LEAST_INPUTS:
                result.refused.append(f"{product.name}: its rows have {inputs} numbers, less than {LEAST_INPUTS}")
                continue
            if self.kept:
                self._keep(tape, graph, product, result)
                continue
            block = self._block_size(inputs)
            if self.bits == 4 and not block:
                sizes = " nor ".join(str(size) for size in sorted(BLOCK_SIZES))
                result.kept.append(
                    f"{product.name}: 8 bits, its rows have {inputs} numbers, which neither {sizes} divides"
                )
            weight = self._dequantise(tape, graph, product, block)
            replace_product(tape, product, tape.op("MatMul", [product.activation, weight]))
            result.fired += 1

    def _keep(self, tape: Tape, graph: ir.Graph, product: Product, result: RewriteResult) -> None:
        kept = self.kept.get(str(product.weight.name))
        if kept is None and not product.is_last:
            result.kept.append(f"{product.name}: half precision, as in the checkpoint")
            return
        blocks = None if kept is None else self._readable(kept.read())
        if blocks is None and kept is not None:
            result.kept.append(f"{product.name}: 8 bits with a scale a column, as TensorRT reads no blocks as its own")
        weight = self._dequantise(tape, graph, product, 0, blocks)
        replace_product(tape, product, tape.op("MatMul", [product.activation, weight]))
        result.fired += 1

    def _readable(self, blocks: Blocks) -> Blocks | None:
        rounded = blocks.scale.astype(self.dtype.numpy()).astype(np.float32)
        if (
            blocks.zero is not None
            or blocks.minimum is not None
            or not ((rounded == blocks.scale) & (rounded > 0)).all()
        ):
            return None
        if blocks.levels.dtype == np.int8:
            return blocks if len(blocks.scale) == 1 else None
        size = next((size for size in BLOCK_SIZES if blocks.block_size % size == 0), 0)
        return replace(blocks, scale=blocks.scale.repeat(blocks.block_size // size, 0)) if size else None

    def _block_size(self, inputs: int) -> int:
        """Numbers of a block of 4 bits; 0 for 8 bits."""
        return next((size for size in BLOCK_SIZES if inputs % size == 0), 0) if self.bits == 4 else 0

    def _dequantise(
        self, tape: Tape, graph: ir.Graph, product: Product, block: int, blocks: Blocks | None = None
    ) -> ir.Value:
        if blocks is not None and blocks.levels.dtype != np.int8:
            block = blocks.block_size
        name, bits = product.weight.name, 4 if block else 8
        if blocks is None:
            blocks = positive(product.matrix(), block or product.sizes[0], bits, self.dtype)
        levels = add_initializer(graph, f"{name}.int{bits}", blocks.levels)
        scale = add_initializer(graph, f"{name}.scale", blocks.scale if block else blocks.scale[0])
        attributes = {"axis": 0, "block_size": block} if block else {"axis": 1}
        return tape.op("DequantizeLinear", [levels, scale], attributes)
