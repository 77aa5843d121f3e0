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
from export.passes.quantise.block_quantisers import Quantiser, symmetric

LEAST_INPUTS = 16
"""ONNX Runtime's smallest block."""
_LARGEST = 15


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
                _quantise(tape, graph, product, self.quantiser, self.block_size, sums)
                result.fired += 1


def _quantise(
    tape: Tape,
    graph: ir.Graph,
    product: Product,
    quantiser: Quantiser,
    block_size: int,
    sums: dict[ir.Value, ir.Value],
) -> None:
    blocks, name, read = quantiser(product.matrix(), block_size), product.weight.name, product.activation
    levels = add_initializer(graph, f"{name}.{blocks.levels.dtype}", blocks.levels)
    parts, whole = [levels, add_initializer(graph, f"{name}.scale", blocks.scale)], None
    if blocks.zero is not None:
        whole = np.clip(np.rint(blocks.zero), 0, _LARGEST)
        parts.append(add_initializer(graph, f"{name}.zero_point", whole.astype(blocks.levels.dtype)))
    weight = tape.op("DequantizeLinear", parts, {"axis": 0, "block_size": block_size})
    computed = tape.op("MatMul", [read, weight])
    if blocks.zero is not None and whole is not None:
        shift = add_initializer(graph, f"{name}.shift", ((whole - blocks.zero) * blocks.scale).astype(np.float32))
        if read not in sums:
            sums[read] = tape.op("MatMul", [read, _adder(graph, product.sizes[0], block_size)])
        computed = tape.op("Add", [computed, tape.op("MatMul", [sums[read], shift])])
    replace_product(tape, product, computed)
    for user in [user for user in computed.consumers() if user.op_type == "Relu"]:
        floor = add_initializer(graph, "weights.floor", np.array(0, np.float32))
        replace_value(user.outputs[0], tape.op("Max", [computed, floor]))


def _adder(graph: ir.Graph, inputs: int, block_size: int) -> ir.Value:
    blocks = -(-inputs // block_size)
    belongs = np.arange(inputs)[:, None] // block_size == np.arange(blocks)
    return add_initializer(graph, f"blocks_of_{inputs}.sums", belongs.astype(np.float32))
