"""The pass on attention of packed heads: the operator where it can be, the runtime's own where it cannot."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx_ir.passes.common import RemoveUnusedNodesPass

from attendant.manifest import Manifest
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.passes.lowering import FORM
from export.passes.ort.attend_packed import AttendPacked
from export.precision.precisions import PRECISIONS
from serving.runtime.ort.kernels.library import kernels
from tests.text_checkpoints import write_text_encoder

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler")
SIZES = {"q": "heads", "k": "groups", "v": "groups"}
MOVED = "\n".join(
    f"{name}r = Reshape({name}, {sizes})\n{name}h = Transpose<perm=[0, 2, 1, 3]>({name}r)"
    for name, sizes in SIZES.items()
)
JOINED = "yt = Transpose<perm=[0, 2, 1, 3]>(a)\ny = Reshape(yt, joined)"
PLAIN = f"q, k, v = Split<axis=-1>(p, parts)\n{MOVED}\na = Attention(qh, kh, vh)\n{JOINED}"


def attention(text=PLAIN, size=32, mask="bool[batch, 1, steps, steps] seen"):
    """A graph of attention of four heads in two groups, to what is packed in ``p``."""
    constants = {
        "heads": [0, 0, 4, size],
        "groups": [0, 0, 2, size],
        "joined": [0, 0, 4 * size],
        "parts": [4 * size, 2 * size, 2 * size],
        "other": [2 * size, 2 * size, 4 * size],
    }
    declared = ", ".join(f"int64[{len(numbers)}] {name}" for name, numbers in constants.items())
    typed = f"(float[batch, steps, {8 * size}] p, {mask}) => (float[batch, steps, {4 * size}] y)"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 24]> g {typed} <{declared}> {{ {text} }}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.array(n), name) for name, n in constants.items())
    del model.graph.value_info[:]
    return ir.from_proto(onnx.shape_inference.infer_shapes(model, data_prop=True))


def answer(model, **feeds):
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(kernels()))
    options.log_severity_level = 4
    return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options).run(None, feeds)[0]


TAKEN = {
    "plain": (PLAIN, 32**-0.5),
    "masked": (PLAIN.replace("vh)", "vh, seen)"), 32**-0.5),
    "weighted in float32": (PLAIN.replace("Attention(", "Attention<softmax_precision=1>("), 32**-0.5),
    "with a scale": (PLAIN.replace("Attention(", "Attention<scale=0.5>("), 0.5),
}


@needs_kernels
@pytest.mark.parametrize("case", TAKEN)
def test_what_the_operator_computes_it_is_given(case):
    text, scale = TAKEN[case]
    model = attention(text)
    random = np.random.default_rng(0)
    feeds = {"p": random.standard_normal((2, 7, 256)).astype(np.float32), "seen": random.random((2, 1, 7, 7)) < 0.7}
    feeds["seen"][..., 0] = True
    before = answer(model, **feeds)
    assert AttendPacked()(model).fired == 1
    RemoveUnusedNodesPass()(model)
    (node,) = model.graph
    assert (node.op_type, node.domain) == ("PackedAttention", "attendant")
    assert [value.name for value in node.inputs] == (["p", "seen"] if case == "masked" else ["p"])
    assert [node.attributes.get_int(name) for name in ("heads", "groups")] == [4, 2]
    assert node.attributes.get_float("scale") == pytest.approx(scale)
    np.testing.assert_allclose(answer(model, **feeds), before, rtol=0, atol=2e-6 * np.abs(before).max())


LEFT = {
    "causal": PLAIN.replace("Attention(", "Attention<is_causal=1>("),
    "weighted in half precision": PLAIN.replace("Attention(", "Attention<softmax_precision=10>("),
    "a softcap": PLAIN.replace("Attention(", "Attention<softcap=30.0>("),
    "scores are read too": PLAIN.replace("a = Att", "a, b, c, d = Att"),
    "keys before queries": PLAIN.replace("q, k, v = Split<axis=-1>(p, parts)", "k, v, q = Split<axis=-1>(p, other)"),
    "heads that stay": PLAIN.replace(JOINED, "y = Reshape(a, joined)"),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_it_does_not_compute_is_the_runtimes(case):
    model = attention(LEFT[case])
    assert AttendPacked()(model).fired == 0
    assert "Attention" in [node.op_type for node in model.graph]


@pytest.mark.parametrize(
    "mask",
    [
        "float[batch, 1, steps, steps] seen",
        "bool[batch, 4, steps, steps] seen",
        "bool[batch, 1, steps, 1] seen",
        "bool[steps, steps] seen",
    ],
)
def test_masks_of_numbers_of_heads_or_of_no_keys_are_the_runtimes(mask):
    model = attention(PLAIN.replace("vh)", "vh, seen)"), mask=mask)
    assert AttendPacked()(model).fired == 0


def test_a_head_of_no_whole_vector_is_the_runtimes():
    assert AttendPacked()(attention(size=24)).fired == 0


@needs_kernels
def test_an_encoder_whose_attention_is_ours_passes_the_parity_check(exported, tmp_path):
    folder = exported.checkpoint("wide-encoder", lambda one: write_text_encoder(one, width=64, mlp_width=64))
    export_onnx(str(folder), tmp_path / "artefact", precision="int8")
    manifest = Manifest.read(tmp_path / "artefact")
    graph = ir.load(tmp_path / "artefact" / manifest.file_for("model", FORM)).graph
    operators = [node.op_type for node in graph]
    assert operators.count("PackedAttention") == 2
    assert not {"Attention", "Expand", "Transpose", "Gelu"} & set(operators)
    assert all(level.passed for level in levels_of(check_parity(tmp_path / "artefact"), PRECISIONS["int8"]))
