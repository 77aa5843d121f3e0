"""What counts as a product, in graphs that were exported."""

import onnx_ir as ir

from export.passes.match.products import beyond_products, products_of


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
