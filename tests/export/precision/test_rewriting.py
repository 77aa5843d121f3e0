from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
import pytest

from attendant.errors import ExportError, InputError
from attendant.manifest import Manifest
from export.graph.exported_graph import ExportedGraph
from export.graph.rewrite import Rewrite
from export.parity.check import check_parity
from export.parity.parity import levels_of, require_parity
from export.precision.precisions import PRECISIONS
from export.precision.rewriting import PASSES, carry_origins, rewrite_graphs
from models.checkpoints.resolve import checkpoint_named
from tests.export.rewritten import read_graphs


class SplitInTwo(Rewrite):
    """Every matrix W becomes W.rounded and W.scale, whose product takes its place."""

    def rewrite(self, graph, result):
        matrices = [value for value in graph.initializers.values() if len(value.shape) == 2]
        for value in matrices:
            parts = {"rounded": value.const_value.numpy() / 2, "scale": np.float32([2])}
            inputs = [
                ir.Value(name=f"{value.name}.{part}", const_value=ir.tensor(array, name=f"{value.name}.{part}"))
                for part, array in parts.items()
            ]
            product = ir.node("Mul", inputs)
            value.replace_all_uses_with(product.outputs[0])
            graph.insert_before(graph[0], product)
            del graph.initializers[value.name]
            graph.initializers.update({one.name: one for one in inputs})
        result.fired = len(matrices)


class Rename(Rewrite):
    """Another name for an output."""

    def rewrite(self, graph, result):
        graph.outputs[0].name = "answers"
        result.fired += 1


@dataclass(frozen=True)
class Say(Rewrite):
    """Changes nothing, and says something else."""

    fired: int = 0
    refused: tuple = ()
    missed: tuple = ()

    def rewrite(self, graph, result):
        result.fired, result.refused, result.missed = self.fired, self.refused, self.missed


@pytest.fixture
def rewrite(tiny_classifier, monkeypatch):
    """Rewrite the one graph of a tiny classifier by some passes."""

    def run(*passes):
        monkeypatch.setitem(PASSES, "fp32", lambda _: passes)
        graphs = rewrite_graphs(
            PRECISIONS["fp32"], checkpoint_named("vit-tiny"), tiny_classifier, read_graphs(tiny_classifier)
        )
        return graphs[0]

    return run


def test_every_pass_runs_in_order_and_the_graph_keeps_the_origins_of_its_weights(rewrite, tiny_classifier, tmp_path):
    graph = rewrite(SplitInTwo(), Say())
    assert [result.fired > 0 for result in graph.passes] == [True, False]
    graph.write(tmp_path)
    (read,), (before,) = [ExportedGraph.read(tmp_path, graph.signature)], read_graphs(tiny_classifier)
    after = read.origins
    assert {name for names in after.values() for name in names} == {
        name for names in before.origins.values() for name in names
    }
    assert after["head.2.weight.rounded"] == after["head.2.weight.scale"] == ["head.2.weight"]
    assert after["head.2.bias"] == ["head.2.bias"]


def test_a_pass_that_missed_a_place_is_an_error(rewrite):
    with pytest.raises(ExportError, match="to fire 2 times; found 1: node_7: unknown form"):
        rewrite(Say(fired=1, missed=("node_7: unknown form",)))


def test_a_precision_that_finds_nothing_is_refused_with_its_reasons(rewrite):
    with pytest.raises(InputError, match=r"something to rewrite in fp32; found nothing in model: .*too small"):
        rewrite(Say(refused=("node_7: too small",)))


def test_a_pass_that_breaks_the_signature_is_an_error(rewrite):
    with pytest.raises(ExportError, match=r"'logits'.*found.*'answers'"):
        rewrite(Rename())


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("a.weight", "a.weight"),
        ("a.weight.int8", "a.weight"),
        ("a.weight.int8.packed", "a.weight"),
        ("a.weight.transposed.scale", "a.weight.transposed"),
        ("a.weights", None),
        ("b", None),
    ],
)
def test_a_weight_comes_from_what_the_longest_former_name_in_front_of_its_own_came_from(name, origin):
    tensor = ir.tensor(np.zeros(1), name=name)
    graph = ir.Graph([], [], nodes=[], initializers=[ir.Value(name=name, const_value=tensor)], opset_imports={"": 24})
    origins = {former: [former] for former in ("a", "a.weight", "a.weight.transposed")}
    wanted = {name: [origin]} if origin else ({name: ["a"]} if name.startswith("a.") else {})
    assert carry_origins(ir.Model(graph, ir_version=11), origins) == wanted


def test_the_types_of_weights_are_listed_without_small_vectors(tiny_classifier):
    types = Manifest.read(tiny_classifier).types["model"]
    assert types == read_graphs(tiny_classifier)[0].weight_types()
    assert types["head.2.weight"] == "float32"
    assert "head.2.bias" not in types


def test_the_parity_check_calls_levels_by_the_precision_and_scales_their_tolerance(tiny_classifier):
    plain = check_parity(tiny_classifier)
    rough = replace(PRECISIONS["fp32"], roundoff=2.0**-11)
    wide, narrow = levels_of(plain, rough), levels_of(plain)
    require_parity(narrow, tiny_classifier)
    ratios = {one.name: one.tolerance / other.tolerance for one, other in zip(wide, narrow, strict=True)}
    assert ratios == {name: 1.0 if "eager" in name else 2.0**13 for name in ratios}
