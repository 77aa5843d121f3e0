"""The pass on products in 4 and 8 bits: each becomes one node, which answers as those it stands for; others stay."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from attendant.manifest import Manifest
from export.passes.lowering import FORM
from export.passes.ort.multiply_in_blocks import MultiplyInBlocks
from export.passes.quantise.block_quantisers import symmetric
from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from export.passes.quantise.quantise_weights import QuantiseWeights
from serving.runtime.ort.kernels.library import kernels
from tests.export.passes.layers import answers, layer
from tests.export.rewritten import rewritten

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler")
BITS = {"int8": QuantiseDynamic(), "int4": QuantiseWeights(block_size=32, quantiser=symmetric)}


def in_blocks(model):
    return [node for node in model.graph if node.op_type == "BlockedMatMul"]


@needs_kernels
@pytest.mark.parametrize("bits", BITS)
def test_one_node_answers_as_those_it_stands_for(bits):
    model = layer(64, 24)
    BITS[bits](model)
    x = np.random.default_rng(0).standard_normal((2, 5, 64)).astype(np.float32)
    before = answers(model, x)
    assert MultiplyInBlocks()(model).fired == 1
    assert [node.op_type for node in model.graph] == ["BlockedMatMul", "Add"]
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(kernels()))
    after = ort.InferenceSession(ir.to_proto(model).SerializeToString(), options).run(None, {"x": x})[0]
    np.testing.assert_allclose(after, before, rtol=0, atol=2e-3 * np.abs(before).max())


@pytest.mark.parametrize("wide", [24, 40], ids=lambda wide: f"{wide} wide")
def test_rows_that_are_no_whole_sixteens_are_left_to_the_runtime(wide):
    model = layer(wide, 24)
    QuantiseDynamic()(model)
    assert MultiplyInBlocks()(model).fired == 0 and not in_blocks(model)


def change(model, operator, index, array):
    (node,) = (one for one in model.graph if one.op_type == operator)
    value = ir.Value(name="other", const_value=ir.tensor(array, name="other"))
    value.shape, value.dtype = ir.Shape(array.shape), ir.DataType.from_numpy(array.dtype)
    model.graph.initializers.add(value)
    node.replace_input_with(index, value)


OTHERS = {
    "another zero point": ("MatMulInteger", 2, np.array(127, np.uint8)),
    "another step": ("QuantizeLinear", 1, np.array(2, np.float32)),
    "the largest of columns": ("ReduceMax", 1, np.array([0])),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_only_looks_like_such_a_product_stays(case):
    model = layer(64, 24)
    QuantiseDynamic()(model)
    change(model, *OTHERS[case])
    assert MultiplyInBlocks()(model).fired == 0


@pytest.mark.parametrize(("precision", "fires"), [("fp32", False), ("int8", True), ("int4", True), ("int4-hqq", True)])
def test_only_graphs_with_such_products_have_the_form(precision, fires, language_model, tmp_path):
    folder = language_model if precision == "fp32" else rewritten(language_model, precision, tmp_path / "artefact")
    manifest = Manifest.read(folder)
    assert manifest.has_form("decoder", FORM) == fires
    if fires:
        graph = ir.load(folder / manifest.file_for("decoder", FORM)).graph
        assert any(node.op_type == "BlockedMatMul" for node in graph)
        assert manifest.signature_for("decoder", FORM) == manifest.signature_for("decoder", "ort-cpu")
