"""Norms of maps as norms of rows: the same numbers, in another shape."""

import onnx_ir as ir
from torch import nn

from export.passes.openvino.normalise_rows import NormaliseRows
from tests.export.passes.images import logits, operators
from tests.export.passes.modules import assert_computes, traced


def test_every_norm_of_a_map_becomes_one_of_rows(explained_swin):
    swin = ir.load(explained_swin / "model.onnx")
    before = logits(swin)
    assert NormaliseRows()(swin).fired > 0
    norms = [node for node in swin.graph if node.op_type == "LayerNormalization"]
    assert {len(node.inputs[0].shape) for node in norms} <= {2, 3}
    assert (logits(swin) == before).all()  # each row by itself, in the same order of sums


def test_a_second_run_fires_nothing(explained_swin):
    swin = ir.load(explained_swin / "model.onnx")
    NormaliseRows()(swin)
    before = operators(swin)
    assert NormaliseRows()(swin).fired == 0
    assert operators(swin) == before


def test_norms_of_rows_stay(tiny_classifier):
    assert NormaliseRows()(ir.load(tiny_classifier / "model.onnx")).fired == 0


def test_a_norm_that_is_an_output_keeps_its_name():
    exported = traced(norm := nn.LayerNorm(16), 4, 6, 16)
    assert NormaliseRows()(exported.model).fired == 1
    assert_computes(exported, norm)
