"""Which attentions are expected to fuse: by the type of their numbers and the size of their heads."""

import onnx
import pytest

from attendant.signature import GraphSignature
from export.targets.constraints.graph import Graph
from export.tensorrt.fusion_plan import describe_fusion, plan_fusion


def graph(path, *attentions):
    inputs = ", ".join(f"{kind}[B,2,S,{size}] q{at}" for at, (kind, size) in enumerate(attentions))
    outputs = ", ".join(f"{kind}[B,2,S,{size}] y{at}" for at, (kind, size) in enumerate(attentions))
    body = " ".join(f"y{at} = Attention(q{at}, q{at}, q{at})" for at in range(len(attentions)))
    text = f'<ir_version: 10, opset_import: ["" : 24]> g ({inputs}) => ({outputs}) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    for node in model.graph.node:
        node.name = f"attention_{node.output[0]}"
    onnx.save(model, path)
    return Graph(path, GraphSignature(name="g", inputs=(), outputs=()))


@pytest.mark.parametrize(
    ("kind", "size", "obstacle"),
    [
        ("float16", 16, ""),
        ("bfloat16", 256, ""),
        ("float16", 64, ""),
        ("float16", 8, "heads of 8"),
        ("float16", 20, "heads of 20"),
        ("bfloat16", 264, "heads of 264"),
        ("float16", "D", "heads of a size that is not fixed"),
        ("float", 64, "numbers of float32"),
    ],
)
def test_an_attention_is_expected_to_fuse_in_half_precision_with_heads_that_kernels_have(
    kind, size, obstacle, tmp_path
):
    (planned,) = plan_fusion(graph(tmp_path / "g.onnx", (kind, size)))
    assert (planned.node, planned.obstacle) == ("attention_y0", obstacle)


def test_the_plan_of_a_graph_is_one_line_that_counts_and_says_why(tmp_path):
    some = plan_fusion(graph(tmp_path / "g.onnx", ("float16", 64), ("float", 64), ("float16", 12)))
    assert describe_fusion("decoder", some) == (
        "decoder: 2 of 3 attentions are expected to fall apart: heads of 12, numbers of float32"
    )
    assert describe_fusion("decoder", some[:1]) == "decoder: all of 1 attentions are expected in fused kernels"
    assert describe_fusion("decoder", ()) == ""
