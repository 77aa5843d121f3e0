"""Windows of a map by one Gather each: the same numbers, by fewer copies."""

import onnx_ir as ir
import pytest
from torch import nn

from export.passes.openvino.gather_windows import GatherWindows
from tests.export.passes.images import logits, operators
from tests.export.passes.modules import assert_computes, traced


@pytest.fixture
def swin(explained_swin):
    """The graph of the shipped Swin."""
    return ir.load(explained_swin / "model.onnx")


def test_answers_have_the_same_bits(swin):
    before = logits(swin)
    assert GatherWindows()(swin).fired > 0
    assert (logits(swin) == before).all()  # numbers are moved, and none is computed


def test_no_map_is_rolled_or_cut_by_other_operators(swin):
    windows = operators(swin).count("Attention")
    transposes = operators(swin).count("Transpose")
    assert GatherWindows()(swin).fired == 2 * windows
    assert "Concat" not in operators(swin) and "Slice" not in operators(swin)
    assert operators(swin).count("Transpose") == transposes - 2 * windows


def test_a_second_run_fires_nothing(swin):
    GatherWindows()(swin)
    before = operators(swin)
    assert GatherWindows()(swin).fired == 0
    assert operators(swin) == before


def test_windows_that_are_cut_in_another_order_stay(swin):
    cuts = [node for node in swin.graph if list(node.attributes.get_ints("perm", ())) == [0, 1, 3, 2, 4, 5]]
    cuts[0].attributes["perm"] = ir.AttrInt64s("perm", [0, 1, 3, 4, 2, 5])
    before, windows = logits(swin), operators(swin).count("Attention")
    assert 0 < GatherWindows()(swin).fired < 2 * windows
    assert (logits(swin) == before).all()  # numbers are moved, and none is computed


class Windows(nn.Module):
    """A map of 8 by 12 in windows of 4 by 4, and their exponentials as a map again."""

    def forward(self, x):
        windows = x.exp().reshape(-1, 2, 4, 3, 4, 5).transpose(2, 3).reshape(-1, 6, 16, 5)
        return windows, windows.exp().reshape(-1, 2, 3, 4, 4, 5).transpose(2, 3).reshape(-1, 8, 12, 5)


def test_windows_and_maps_that_are_outputs_keep_their_names():
    exported = traced(windows := Windows(), 8, 12, 5)
    assert GatherWindows()(exported.model).fired == 2
    assert_computes(exported, windows)
