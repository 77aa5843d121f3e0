from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from attendant.errors import ExportError, InputError
from attendant.manifest import Manifest
from export.graph.onnx_graph import origins_of
from export.graph.outcome import Outcome
from export.parity.ladder import climb
from export.parity.parity import require_parity, rungs_of
from export.precision.precisions import PRECISIONS
from export.precision.rewriting import PASSES, Given, carried_origins, rewrite_graphs, weight_types
from models.checkpoints.resolve import checkpoint_named


def split_in_two(model):
    """Every matrix W becomes W.rounded and W.scale, whose product takes its place."""
    matrices = [value for value in model.graph.initializers.values() if len(value.shape) == 2]
    for value in matrices:
        parts = {"rounded": value.const_value.numpy() / 2, "scale": np.float32([2])}
        inputs = [
            ir.Value(name=f"{value.name}.{part}", const_value=ir.tensor(array, name=f"{value.name}.{part}"))
            for part, array in parts.items()
        ]
        product = ir.node("Mul", inputs)
        value.replace_all_uses_with(product.outputs[0])
        model.graph.insert_before(model.graph[0], product)
        del model.graph.initializers[value.name]
        model.graph.initializers.update({one.name: one for one in inputs})
    return Outcome(name="split_in_two", fired=len(matrices))


@pytest.fixture
def given(tiny_classifier):
    """The one graph of a tiny classifier."""
    (signature,) = Manifest.read(tiny_classifier).graphs
    checkpoint = checkpoint_named("vit-tiny")
    return Given(checkpoint=checkpoint, folder=tiny_classifier, signature=signature, float32=signature)


@pytest.fixture
def with_passes(monkeypatch):
    """Let a precision be these passes."""
    return lambda *passes: monkeypatch.setitem(PASSES, "fp32", lambda _: passes)


def test_every_pass_runs_in_order_and_the_graph_is_written_with_the_origins_of_its_weights(
    given, with_passes, tmp_path
):
    with_passes(split_in_two)
    done = rewrite_graphs(PRECISIONS["fp32"], [given], tmp_path)
    assert {graph: [one.name for one in outcomes] for graph, outcomes in done.items()} == {"model": ["split_in_two"]}
    before, after = origins_of(given.folder / "model.onnx"), origins_of(tmp_path / "model.onnx")
    assert {name for names in after.values() for name in names} == {name for names in before.values() for name in names}
    assert after["head.2.weight.rounded"] == after["head.2.weight.scale"] == ["head.2.weight"]
    assert after["head.2.bias"] == ["head.2.bias"]


def test_a_pass_that_missed_a_place_is_an_error(given, with_passes, tmp_path):
    with_passes(lambda model: Outcome(name="lame", fired=1, misses=("node_7: unknown form",)))
    with pytest.raises(ExportError, match="lame to fire 2 times; found 1: node_7: unknown form"):
        rewrite_graphs(PRECISIONS["fp32"], [given], tmp_path)


def test_a_precision_that_finds_nothing_is_refused_with_its_reasons(given, with_passes, tmp_path):
    with_passes(lambda model: Outcome(name="idle", fired=0, refusals=("node_7: too small",)))
    with pytest.raises(InputError, match=r"something to rewrite in fp32; found nothing in model: .*too small"):
        rewrite_graphs(PRECISIONS["fp32"], [given], tmp_path)


def test_a_pass_that_breaks_the_signature_is_an_error(given, with_passes, tmp_path):
    def rename(model):
        model.graph.outputs[0].name = "answers"
        return Outcome(name="rename", fired=1)

    with_passes(rename)
    with pytest.raises(ExportError, match=r"'logits'.*found.*'answers'"):
        rewrite_graphs(PRECISIONS["fp32"], [given], tmp_path)


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
    assert carried_origins(ir.Model(graph, ir_version=11), origins) == wanted


def test_the_types_of_weights_are_listed_without_small_vectors(tiny_classifier):
    types = Manifest.read(tiny_classifier).types["model"]
    assert types == weight_types(tiny_classifier / "model.onnx")
    assert types["head.2.weight"] == "float32"
    assert "head.2.bias" not in types


def test_the_ladder_calls_rungs_by_the_precision_and_scales_their_tolerance(tiny_classifier):
    plain = climb(tiny_classifier)
    rough = replace(PRECISIONS["fp32"], roundoff=2.0**-11)
    wide, narrow = rungs_of(plain, rough), rungs_of(plain)
    require_parity(narrow, tiny_classifier)
    ratios = {one.name: one.tolerance / other.tolerance for one, other in zip(wide, narrow, strict=True)}
    assert ratios == {name: 1.0 if "eager" in name else 2.0**13 for name in ratios}
