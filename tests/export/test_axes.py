import pytest

from export.axes import Axis, axes_of
from models.errors import ConfigError
from models.tasks.graph import TaskGraph
from tests.models.checkpoints.folders import TINY, tiny_checkpoint


@pytest.mark.parametrize("sizes", [(0, 1, 2), (2, 1, 2), (1, 3, 2)])
def test_sizes_out_of_order_are_refused(sizes):
    smallest, usual, largest = sizes
    with pytest.raises(ConfigError, match="smallest ≤ usual ≤ largest"):
        Axis(smallest=smallest, usual=usual, largest=largest)


@pytest.mark.parametrize("preset", TINY)
def test_every_symbol_of_a_graph_has_its_sizes(preset):
    for graph in tiny_checkpoint(preset).graphs():
        assert set(graph.signature.symbols()) == axes_of(graph).keys()


def test_the_attended_axis_ends_at_the_capacity_and_a_step_is_usually_one_token():
    decoder: TaskGraph = tiny_checkpoint("transformer-tiny").graphs()[1]
    axes = axes_of(decoder)
    assert (axes["attended"].largest, axes["attended"].usual) == (8, 4)
    assert (axes["steps"].largest, axes["steps"].usual) == (8, 1)
