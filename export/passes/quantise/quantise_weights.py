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

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass, TopologicalSortPass
from onnx_ir.tape import Tape

from export.graph.outcome import Outcome
from export.passes.match.products import Product, beyond_products, products_of, put_in_place, stored, take_the_place_of
from export.passes.quantise.block_quantisers import Quantiser, symmetric

LEAST_INPUTS = 16
"""ONNX Runtime's smallest block."""
_LARGEST = 15


def quantise_weights(model: ir.Model, block_size: int = 128, quantiser: Quantiser = symmetric) -> Outcome:
    """Rewrite every product of an activation with a constant matrix.

    Args:
        model: changed in place.
        block_size: numbers of a block, a power of two; a shorter column is one block.
        quantiser: how the levels and scales of a block are found.
    """
    graph, refusals = model.graph, beyond_products(model.graph)
    tape, sums, fired = Tape(graph), dict[ir.Value, ir.Value](), 0
    for product in products_of(graph):
        inputs = product.sizes[0]
        if inputs < LEAST_INPUTS:
            refusals.append(f"{product.name}: its rows have {inputs} numbers, less than a block's {LEAST_INPUTS}")
        else:
            _quantise(tape, graph, product, quantiser, block_size, sums)
            fired += 1
    RemoveUnusedNodesPass()(model)
    TopologicalSortPass()(model)
    return Outcome(name="quantise_weights", fired=fired, refusals=tuple(refusals))


def _quantise(
    tape: Tape,
    graph: ir.Graph,
    product: Product,
    quantiser: Quantiser,
    block_size: int,
    sums: dict[ir.Value, ir.Value],
) -> None:
    blocks, name, read = quantiser(product.matrix(), block_size), product.weight.name, product.activation
    levels = stored(graph, f"{name}.{blocks.levels.dtype}", blocks.levels)
    parts, whole = [levels, stored(graph, f"{name}.scale", blocks.scale)], None
    if blocks.zero is not None:
        whole = np.clip(np.rint(blocks.zero), 0, _LARGEST)
        parts.append(stored(graph, f"{name}.zero_point", whole.astype(blocks.levels.dtype)))
    weight = tape.op("DequantizeLinear", parts, {"axis": 0, "block_size": block_size})
    computed = tape.op("MatMul", [read, weight])
    if blocks.zero is not None and whole is not None:
        shift = stored(graph, f"{name}.shift", ((whole - blocks.zero) * blocks.scale).astype(np.float32))
        if read not in sums:
            sums[read] = tape.op("MatMul", [read, _adder(graph, product.sizes[0], block_size)])
        computed = tape.op("Add", [computed, tape.op("MatMul", [sums[read], shift])])
    put_in_place(tape, product, computed)
    for user in [user for user in computed.consumers() if user.op_type == "Relu"]:
        floor = stored(graph, "weights.floor", np.array(0, np.float32))
        take_the_place_of(user.outputs[0], tape.op("Max", [computed, floor]))


def _adder(graph: ir.Graph, inputs: int, block_size: int) -> ir.Value:
    blocks = -(-inputs // block_size)
    belongs = np.arange(inputs)[:, None] // block_size == np.arange(blocks)
    return stored(graph, f"blocks_of_{inputs}.sums", belongs.astype(np.float32))
