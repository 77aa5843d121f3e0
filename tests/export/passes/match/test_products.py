"""What counts as a product, in graphs that were exported, and what takes its place."""

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch.nn.functional import linear

from export.passes.match.products import add_initializer, beyond_products, products_of
from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from export.passes.quantise.quantise_weights import QuantiseWeights
from export.passes.quantise.quantise_weights_only import QuantiseWeightsOnly
from tests.export.passes.layers import answers, both_ways, layer

QUANTISERS = {
    "int8": [QuantiseDynamic()],
    "int4": [QuantiseWeights(block_size=16)],
    "int4, the last in int8": [QuantiseDynamic(last_only=True), QuantiseWeights(block_size=16)],
    "TensorRT's int8": [QuantiseWeightsOnly(bits=8)],
    "TensorRT's int4": [QuantiseWeightsOnly(bits=4)],
    "TensorRT's int4, the last in int8": [QuantiseWeightsOnly(bits=8, last_only=True), QuantiseWeightsOnly(bits=4)],
}


def test_every_projection_of_a_decoder_and_its_tied_head_are_found(tiny_translator):
    model = ir.load(tiny_translator / "decoder.onnx")
    found = products_of(model.graph)
    assert len(found) == sum(node.op_type == "MatMul" for node in model.graph) == 17
    head = found[-1]
    assert (head.name, head.transposed) == ("logits", True)
    assert head.sizes == tuple(reversed(model.graph.initializers["model.embedding.weight"].shape))
    assert head.matrix().shape == head.sizes


def test_a_gemm_hands_over_its_bias(tiny_classifier):
    model = ir.load(tiny_classifier / "model.onnx")
    found = {product.node.op_type: product for product in products_of(model.graph)}
    assert found["Gemm"].bias is not None
    assert found["MatMul"].bias is None


def test_a_convolution_is_named_by_its_weight(tiny_classifier):
    (reason,) = beyond_products(ir.load(tiny_classifier / "model.onnx").graph)
    assert reason.startswith("patches.projection.weight: a convolution")


@pytest.mark.parametrize("turned_first", [False, True], ids=["as it is first", "turned first"])
@pytest.mark.parametrize("sizes", [(64, 64), (64, 192)], ids=str)
@pytest.mark.parametrize("passes", QUANTISERS.values(), ids=QUANTISERS)
def test_a_matrix_that_is_read_as_it_is_and_turned_is_quantised_for_each(passes, sizes, turned_first):
    model = both_ways(*sizes, turned_first)
    weight = torch.from_numpy(model.graph.initializers["weight"].const_value.numpy().astype(np.float64))
    weight = weight if turned_first else weight.T
    x = torch.randn(3, 2, weight.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    exact = linear(torch.relu(linear(x, weight)), weight.T).numpy()
    assert sum(one(model).fired for one in passes) == 2
    off = answers(model, x.numpy().astype(np.float32)) - exact
    assert np.linalg.norm(off) < 0.2 * np.linalg.norm(exact)


def test_an_initializer_is_shared_where_its_numbers_are_the_same_and_renamed_where_they_are_not():
    graph = layer(2, 2).graph
    one, same, other, whole = (
        add_initializer(graph, "weight.scale", array)
        for array in (np.float32([1]), np.float32([1]), np.float32([2]), np.int32([1]))
    )
    assert one is same
    assert [value.name for value in (one, other, whole)] == ["weight.scale", "weight.2.scale", "weight.3.scale"]
