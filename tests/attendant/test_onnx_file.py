"""Files that a library or runtime would die of are refused before one opens them."""

import re

import onnx
import pytest
from onnx import helper

from attendant import onnx_file
from attendant.errors import ArtefactError
from attendant.onnx_file import MOST_NESTED, MOST_NODES, check_onnx_file
from tests.export.hostile_graphs import MALFORMED, functions_in_functions, nested_conditions, relus


def written(content, path):
    path.write_bytes(content)
    return path


def a_graph(*nodes, **more):
    return onnx.ModelProto(graph=onnx.GraphProto(name="g", node=nodes), **more).SerializeToString()


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (functions_in_functions(60), "without functions of its own at PATH; found some; inline them first"),
        (nested_conditions(MOST_NESTED + 1), f"at most {MOST_NESTED} subgraphs within each other in PATH"),
        (relus(MOST_NODES + 1), f"at most {MOST_NODES} nodes in PATH; found more"),
    ],
    ids=["functions", "subgraphs", "nodes"],
)
def test_a_graph_beyond_the_bounds_is_refused_by_its_path(content, refusal, tmp_path):
    path = written(content, tmp_path / "model.onnx")
    with pytest.raises(ArtefactError, match=refusal.replace("PATH", re.escape(str(path)))):
        check_onnx_file(path)


@pytest.mark.parametrize("content", [nested_conditions(MOST_NESTED), relus(MOST_NODES)], ids=["subgraphs", "nodes"])
def test_a_graph_at_the_bounds_is_taken(content, tmp_path):
    assert check_onnx_file(written(content, tmp_path / "model.onnx")) == set()


def test_nodes_of_subgraphs_count(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "MOST_NODES", 10)
    path = written(nested_conditions(6), tmp_path / "model.onnx")
    with pytest.raises(ArtefactError, match="at most 10 nodes"):
        check_onnx_file(path)


def test_a_file_of_too_many_fields_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "MOST_FIELDS", 100)
    with pytest.raises(ArtefactError, match="more than 100 fields"):
        check_onnx_file(written(relus(50), tmp_path / "model.onnx"))


@pytest.mark.parametrize("content", MALFORMED.values(), ids=list(MALFORMED))
def test_a_file_that_is_no_onnx_is_refused_by_its_path(content, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ArtefactError, match=f"an ONNX file at {re.escape(str(path))}"):
        check_onnx_file(path)


@pytest.mark.parametrize("bit", [32, 34])
def test_a_field_of_which_another_reader_drops_the_upper_bits_is_refused(bit, tmp_path):
    # ONNX Runtime and OpenVINO see another graph in it, whose nodes and weights nobody has looked at.
    tag, content = (7 << 3 | 2) + (1 << bit), a_graph()
    written_tag = bytes(tag >> shift & 0x7F | (0x80 if shift < 28 else 0) for shift in range(0, 35, 7))
    path = written(content + written_tag + b"\x00", tmp_path / "model.onnx")
    with pytest.raises(ArtefactError, match=f"an ONNX file at {re.escape(str(path))}.*do not add up"):
        check_onnx_file(path)


def test_a_file_that_is_not_there_is_refused_by_its_path(tmp_path):
    with pytest.raises(ArtefactError, match=r"an ONNX file at .*model\.onnx; found .*No such file"):
        check_onnx_file(tmp_path / "model.onnx")


@pytest.mark.parametrize("part", ["constant", "sparse", "subgraph", "training"])
def test_weights_are_found_in_every_part_of_a_graph(part, tmp_path):
    tensor = onnx.TensorProto(data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="far.data")
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    inner = onnx.GraphProto(name="inner", node=[constant])
    models = {
        "constant": a_graph(constant),
        "sparse": a_graph(helper.make_node("Constant", [], ["c"], sparse_value=onnx.SparseTensorProto(values=tensor))),
        "subgraph": a_graph(helper.make_node("If", ["x"], ["y"], then_branch=inner)),
        "training": a_graph(training_info=[onnx.TrainingInfoProto(algorithm=inner)]),
    }
    assert check_onnx_file(written(models[part], tmp_path / "model.onnx")) == {"far.data"}
