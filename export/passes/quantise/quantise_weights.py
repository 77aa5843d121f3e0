"""Weights of products in 4 bits, in blocks of a column, each with a scale; activations stay as they are.

    before    MatMul(x, W)
    after     MatMul(x, DequantizeLinear(q, s))                                 if W ≈ s q
              MatMul(x, DequantizeLinear(q, s, round z)) + (x A) ((round z − z) s)      if W ≈ s (q − z)

A of the second form adds up x over each block: what DequantizeLinear cannot say, a zero between whole numbers, is a
small product of its own. ONNX Runtime reads DequantizeLinear and MatMul as one node, MatMulNBits, which multiplies in
8 bits: where blocks lie along the axis that is summed over, their size is a power of two, and no Relu follows, so
that Relu(y) becomes Max(y, 0).

The standard looks nothing up in 4 bits: a table of embeddings that is also a weight stays, for lookups, what it was.

Legend: x is [..., in], W and q [in, out], s and z [blocks, out], A [in, blocks] of zeros and ones.
Source: ONNX operator specification, DequantizeLinear, block_size; ONNX Runtime 1.31, qdq_selectors.cc.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import (
    Product,
    add_initializer,
    beyond_products,
    products_of,
    replace_product,
    replace_value,
)
from export.passes.quantise.block_quantisers import Blocks, Quantiser, symmetric

LEAST_INPUTS = 16
"""ONNX Runtime's smallest block."""


@dataclass(frozen=True)
class QuantiseWeights(Rewrite):
    """Rewrite every product of an activation with a constant matrix.

    Attributes:
        block_size: numbers of a block, a power of two; a shorter column is one block.
        quantiser: how the levels and scales of a block are found.
    """

    block_size: int = 128
    quantiser: Quantiser = symmetric

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        result.refused += beyond_products(graph)
        tape, sums = Tape(graph), dict[ir.Value, ir.Value]()
        for product in products_of(graph):
            inputs = product.sizes[0]
            if inputs < LEAST_INPUTS:
                result.refused.append(
                    f"{product.name}: its rows have {inputs} numbers, less than a block's {LEAST_INPUTS}"
                )
            else:
                blocks = self.quantiser(product.matrix(), self.block_size)
                multiply_blocks(tape, graph, product, blocks, self.block_size, sums)
                result.fired += 1


def multiply_blocks(
    tape: Tape, graph: ir.Graph, product: Product, blocks: Blocks, block_size: int, sums: dict[ir.Value, ir.Value]
) -> None:
    """Let a product read its matrix in blocks.

    Args:
        tape: of the graph.
        graph: what the product is in.
        product: which one.
        blocks: its matrix.
        block_size: numbers of a block.
        sums: an activation → its sums over blocks of that size, as far as they are made.
    """
    name, read = product.weight.name, product.activation
    levels = add_initializer(graph, f"{name}.{blocks.levels.dtype}", blocks.levels)
    parts, (whole, shift) = [levels, add_initializer(graph, f"{name}.scale", blocks.scale)], blocks.whole_zero()
    if whole is None and blocks.levels.dtype == np.int8:
        whole = np.zeros_like(blocks.scale)  # not left out: serving.runtime.ort.runner.widen_sums_of_bytes
    if whole is not None:
        parts.append(add_initializer(graph, f"{name}.zero_point", whole.astype(blocks.levels.dtype)))
    weight = tape.op("DequantizeLinear", parts, {"axis": 0, "block_size": block_size})
    computed = tape.op("MatMul", [read, weight])
    if shift is not None:
        if read not in sums:
            sums[read] = tape.op("MatMul", [read, _adder(graph, product.sizes[0], block_size)])
        raised = tape.op("MatMul", [sums[read], add_initializer(graph, f"{name}.shift", shift)])
        computed = tape.op("Add", [computed, raised])
    replace_product(tape, product, computed)
    for user in [user for user in computed.consumers() if user.op_type == "Relu"]:
        floor = add_initializer(graph, "weights.floor", np.array(0, np.float32))
        replace_value(user.outputs[0], tape.op("Max", [computed, floor]))


def _adder(graph: ir.Graph, inputs: int, block_size: int) -> ir.Value:
    blocks = -(-inputs // block_size)
    belongs = np.arange(inputs)[:, None] // block_size == np.arange(blocks)
    return add_initializer(graph, f"blocks_of_{inputs}.sums", belongs.astype(np.float32))
