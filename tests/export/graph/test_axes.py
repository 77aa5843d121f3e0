import pytest

from attendant.manifest import Manifest
from attendant.signature import Axis
from export.graph.axes import MAX_BATCH, axes_of
from models.task_graph import TaskGraph
from tests.models.checkpoints.folders import TINY, tiny_checkpoint


@pytest.mark.parametrize("preset", TINY)
def test_every_symbol_of_a_graph_has_its_sizes(preset):
    for graph in tiny_checkpoint(preset).graphs():
        assert set(graph.signature.symbols()) == axes_of(graph).keys()


def test_the_attended_axis_ends_at_the_capacity_and_a_step_is_usually_one_token():
    decoder: TaskGraph = tiny_checkpoint("transformer-tiny").graphs()[1]
    axes = axes_of(decoder)
    assert (axes["attended"].max, axes["attended"].opt) == (8, 4)
    assert (axes["steps"].max, axes["steps"].opt) == (8, 1)


def test_an_image_usually_has_its_largest_size_and_at_least_one_position():
    encoder, decoder = map(axes_of, tiny_checkpoint("show-attend-tell-tiny").graphs())
    side = Axis(min=2, opt=12, max=12)
    assert (encoder["height"], encoder["width"]) == (side, side)
    assert decoder["positions"] == Axis(opt=36, max=36)


def test_an_artefact_carries_the_sizes_of_every_axis_of_every_graph(tiny_translator):
    manifest = Manifest.read(tiny_translator)
    graphs = tiny_checkpoint("transformer-tiny").graphs()
    assert [signature.axes for signature in manifest.graphs] == [axes_of(graph) for graph in graphs]
    assert manifest.graph("decoder").axes == {
        "batch": Axis(opt=8, max=MAX_BATCH),
        "source": Axis(opt=6, max=12),
        "steps": Axis(opt=1, max=8),
        "attended": Axis(opt=4, max=8),
        "scored": Axis(opt=1, max=8),
    }
