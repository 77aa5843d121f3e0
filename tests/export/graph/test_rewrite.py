import onnx_ir as ir
import pytest
from onnx_ir.passes import PostconditionError, PreconditionError

from attendant.errors import ExportError
from export.graph.rewrite import Rewrite, RewriteResult, Rewrites
from tests.export.passes.layers import layer


class Rename(Rewrite):
    """Gives the weight of a layer another name."""

    operators = frozenset({"MatMul"})

    def rewrite(self, graph, result):
        graph.initializers["weight"].name = "renamed"
        result.fired += 1


def result_of(**counts):
    return RewriteResult(layer(2, 2), False, name="lower_x", **counts)


def refuse(model):
    raise ExportError("a graph of another kind", "this", "make another")


def accept(model):
    pass


def test_a_pass_that_met_an_unknown_form_is_an_error_with_its_reasons():
    with pytest.raises(ExportError, match="lower_x to fire 2 times; found 1: attention_2: its cache is no input"):
        result_of(fired=1, missed=["attention_2: its cache is no input"]).require_no_misses()


def test_a_limit_of_the_target_is_no_error_and_travels_in_the_manifest():
    result = result_of(refused=["attention: head size 4"])
    result.require_no_misses()
    assert result.to_json() == {"name": "lower_x", "fired": 0, "refusals": ["attention: head size 4"]}


def test_a_pass_is_called_by_its_module_and_says_how_often_it_fired():
    model = layer(2, 2)
    result = Rename()(model)
    assert (result.name, result.fired, result.modified, result.model) == ("test_rewrite", 1, True, model)
    assert set(model.graph.initializers) == {"renamed", "bias"}


def test_a_graph_without_the_operators_of_a_pass_is_not_searched():
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))
    empty = ir.Model(ir.Graph([value], [value], nodes=[], opset_imports={"": 24}), ir_version=11)
    result = Rename()(empty)
    assert (result.fired, result.modified) == (0, False)


def test_several_passes_keep_the_result_of_each():
    assert [one.fired for one in Rewrites([Rename()], accept, accept).run(layer(2, 2))] == [1]


@pytest.mark.parametrize(
    ("before", "after", "kind"), [(refuse, accept, PreconditionError), (accept, refuse, PostconditionError)]
)
def test_what_must_hold_before_and_after_the_passes_is_checked(before, after, kind):
    rewrites = Rewrites([Rename()], before, after)
    with pytest.raises(kind):
        rewrites(layer(2, 2))
    with pytest.raises(ExportError, match="a graph of another kind; found this; make another"):
        rewrites.run(layer(2, 2))
