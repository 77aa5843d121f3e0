import onnx
import pytest

from export.restrictions.graph import Graph
from export.restrictions.registry import RESTRICTIONS
from export.target_check import verdicts_of
from export.targets import TARGETS
from models.signature import GraphSignature, TensorSpec
from tests.export.restrictions.broken_graphs import CASES

WORDS = {"float": "float32", "double": "float64"}


def read(text, path):
    """The graph of a text, with the signature that its manifest would state."""
    model = onnx.parser.parse_model(text)
    onnx.save(model, path)
    aliases = {"out": "cache"} if "TensorScatter" in text else {}
    specs = [tuple(spec(value) for value in values) for values in (model.graph.input, model.graph.output)]
    return Graph(path, GraphSignature(name="g", inputs=specs[0], outputs=specs[1], aliases=aliases))


def spec(value):
    kind = value.type.tensor_type
    axes = tuple(dim.dim_param or dim.dim_value for dim in kind.shape.dim)
    word = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
    return TensorSpec(name=value.name, dtype=WORDS.get(word, word), axes=axes)


def broken(graph, target):
    return {verdict.restriction.name: verdict.breaches for verdict in verdicts_of(graph, target) if verdict.breaches}


@pytest.mark.parametrize("name", CASES)
def test_a_graph_that_breaks_a_restriction_is_caught_at_its_node(name, tmp_path):
    case = CASES[name]
    found = broken(read(case.broken, tmp_path / "g.onnx"), TARGETS[case.target])
    assert name in found
    assert [breach.node for breach in found[name]] == [case.at]


@pytest.mark.parametrize("name", CASES)
def test_a_graph_that_keeps_it_breaks_nothing(name, tmp_path):
    case = CASES[name]
    assert broken(read(case.sound, tmp_path / "g.onnx"), TARGETS[case.target]) == {}


def test_every_restriction_has_a_graph_that_breaks_it():
    assert CASES.keys() == RESTRICTIONS.keys()


def test_every_record_names_restrictions_that_exist_and_every_restriction_is_some_records():
    named = {name for target in TARGETS.values() for name in target.restrictions}
    assert named == RESTRICTIONS.keys()
    assert all(len(set(target.restrictions)) == len(target.restrictions) for target in TARGETS.values())
