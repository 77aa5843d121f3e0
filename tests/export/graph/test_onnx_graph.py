from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.onnx._internal.exporter._registration import ONNXRegistry

from attendant.errors import ExportError
from attendant.signature import GraphSignature, TensorSpec
from export.graph.exported_graph import require_signature, require_standard
from export.graph.onnx_graph import OPSET, onnx_from_torch
from models.task_graph import TaskGraph


def signature(axes=("batch", 4)):
    return GraphSignature(
        name="model",
        inputs=(TensorSpec(name="x", dtype="float32", axes=axes),),
        outputs=(TensorSpec(name="y", dtype="float32", axes=axes),),
    )


class Frozen(nn.Module):
    """Asks Python for the batch size, so that tracing makes a number of it."""

    def forward(self, x):
        return x + torch.ones(len(x), 4)


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def graph_file(path, *, batch="batch", op="Mul", domain="", name="x", opset=OPSET):
    node = helper.make_node(op, [name, name] if op == "Mul" else [name], ["y"], domain=domain)
    value = [helper.make_tensor_value_info(tensor, TensorProto.FLOAT, [batch, 4]) for tensor in (name, "y")]
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(helper.make_graph([node], "g", value[:1], value[1:]), opset_imports=opsets, ir_version=10)
    onnx.save(model, path)
    return path


def test_a_module_becomes_a_graph_that_keeps_its_signature(tmp_path):
    exported = onnx_from_torch(TaskGraph(signature=signature(), module=Doubled()))
    exported.write(tmp_path)
    model = onnx.load(tmp_path / f"{exported.name}.onnx")
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", OPSET)]


class Halved(nn.Module):
    def forward(self, x):
        return x[:, ::2]


def test_an_axis_that_the_graph_makes_has_the_name_that_its_signature_gives_it(tmp_path):
    made = GraphSignature(
        name="model",
        inputs=(TensorSpec(name="x", dtype="float32", axes=("batch", "time")),),
        outputs=(TensorSpec(name="y", dtype="float32", axes=("batch", "pairs")),),
    )
    onnx_from_torch(TaskGraph(signature=made, module=Halved(), largest={"time": 16})).write(tmp_path)
    (value,) = onnx.load(tmp_path / "model.onnx").graph.output
    assert [dim.dim_param for dim in value.type.tensor_type.shape.dim] == ["batch", "pairs"]


def test_a_module_that_freezes_its_batch_is_refused():
    graph = TaskGraph(signature=signature(), module=Frozen())
    with pytest.raises(ExportError, match=r"froze \['batch'\]"):
        onnx_from_torch(graph)


class Same(nn.Module):
    def forward(self, x):
        return x


def test_an_input_that_comes_back_as_it_came_is_an_output(tmp_path):
    onnx_from_torch(TaskGraph(signature=signature(), module=Same())).write(tmp_path)
    model = onnx.load(tmp_path / "model.onnx")
    assert [node.op_type for node in model.graph.node] == ["Identity"]
    assert ([one.name for one in model.graph.input], [one.name for one in model.graph.output]) == (["x"], ["y"])


class Bessel(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


def test_an_operator_that_the_exporter_does_not_know_is_named_in_one_short_line():
    with pytest.raises(
        ExportError, match=r"prims\.bessel_j0\.default, translated to ONNX; found No ONNX function"
    ) as told:
        onnx_from_torch(TaskGraph(signature=signature(), module=Bessel()))
    assert len(str(told.value)) < 300 and str(told.value).isprintable()


def test_a_graph_carries_no_stack_traces_of_the_machine_that_wrote_it(tiny_translator):
    assert all(b"site-packages" not in path.read_bytes() for path in tiny_translator.glob("*.onnx"))


def test_a_frozen_batch_is_refused_and_named(tmp_path):
    with pytest.raises(ExportError, match=r"froze \['batch'\]"):
        require_signature(ir.load(graph_file(tmp_path / "g.onnx", batch=2)), signature())


def test_a_renamed_input_is_refused(tmp_path):
    with pytest.raises(ExportError, match="pixels"):
        require_signature(ir.load(graph_file(tmp_path / "g.onnx", name="pixels")), signature())


def test_an_operator_outside_the_standard_is_refused(tmp_path):
    with pytest.raises(ExportError, match=r"com\.microsoft"):
        require_standard(ir.load(graph_file(tmp_path / "g.onnx", op="Gelu", domain="com.microsoft")))


def test_an_operator_that_is_used_otherwise_than_the_standard_says_is_refused(tmp_path):
    with pytest.raises(ExportError, match="Sum2"):
        require_standard(ir.load(graph_file(tmp_path / "g.onnx", op="Sum2")))


@pytest.mark.parametrize("size", [65, 96, 250, 251, 256, 300])
def test_a_small_weight_that_lies_beside_its_graph_is_of_the_standard(size, tmp_path):
    """As the channels of a Swin Transformer do."""
    numbers = helper.make_tensor("b", TensorProto.FLOAT, [size], np.arange(size, dtype=np.float32))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "b"], ["y"])], "g", [x], [y], [numbers])
    model = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11))
    ir.save(model, tmp_path / "g.onnx", external_data="g.onnx.data", size_threshold_bytes=256)
    assert (tmp_path / "g.onnx.data").stat().st_size >= 4 * size
    require_standard(ir.load(tmp_path / "g.onnx"))


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_a_translators_graphs_pass_the_full_checker_in_the_standards_domain_alone(tiny_translator, name):
    model = onnx.load(tiny_translator / f"{name}.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    assert not model.functions


def test_what_an_export_adds_to_the_translations_that_are_kept_is_its_own():
    target, (one, other) = torch.ops.aten.where.self, (ONNXRegistry.from_torchlib(OPSET) for _ in range(2))
    assert len(one.functions) > 400 and one.functions == other.functions
    before = len(other.get_decomps(target))
    one.register_op(target, lambda condition, x, y: x)
    assert len(one.get_decomps(target)) == before + 1 == len(other.get_decomps(target)) + 1
    assert ONNXRegistry.from_torchlib(18).opset_version == 18 != one.opset_version


def test_the_decoder_writes_slices_and_attends_in_every_layer(tiny_translator):
    model = onnx.load(tiny_translator / "decoder.onnx")
    counts = Counter(node.op_type for node in model.graph.node)
    layers = 2
    assert counts["TensorScatter"] == 2 * layers, "keys and values"
    assert counts["Attention"] == 2 * layers, "self and cross"
    made_by = {output: node.op_type for node in model.graph.node for output in node.output}
    users = Counter(made_by[name] for node in model.graph.node if node.op_type == "Slice" for name in node.input[:1])
    assert users["TensorScatter"] == 2 * layers, "attention sees the attended length, not the capacity"


def test_every_attention_of_the_decoder_has_four_axes_one_output_and_an_explicit_mask(tiny_translator):
    model = onnx.shape_inference.infer_shapes(onnx.load(tiny_translator / "decoder.onnx"), data_prop=True)
    values = (*model.graph.input, *model.graph.value_info)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    for node in (node for node in model.graph.node if node.op_type == "Attention"):
        assert len(node.output) == 1
        assert len(node.input) == 4 and node.input[3], "query, key, value, mask"
        assert [ranks[name] for name in node.input[:3]] == [4, 4, 4]
        assert {a.name: helper.get_attribute_value(a) for a in node.attribute}.get("is_causal", 0) == 0


def test_tensor_scatter_writes_along_the_positions(tiny_translator):
    model = onnx.load(tiny_translator / "decoder.onnx")
    scatters = [node for node in model.graph.node if node.op_type == "TensorScatter"]
    attributes = [{a.name: helper.get_attribute_value(a) for a in node.attribute} for node in scatters]
    assert all(entry["axis"] == -2 and entry["mode"] == b"linear" for entry in attributes)
