"""The pass on exported graphs, and what ONNX Runtime's own attention then reads."""

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn

from attendant.manifest import Manifest
from export.graph.sample_inputs import sample_inputs
from export.parity.eager import eager_runners
from export.passes.ort.feed_attention_packed import FeedAttentionPacked
from export.passes.ort.lower_cached_attention import LowerCachedAttention
from export.passes.ort.pack_products import PackProducts
from export.passes.ort.rotate_in_attention import RotateInAttention
from models.checkpoints.resolve import checkpoint_named
from tests.export.passes.modules import assert_computes, traced
from tests.models.agreement import assert_rounded

QUERY, KEY, VALUE = (f"model.blocks.0.attention.{part}.weight.transposed" for part in ("query", "key", "value"))


@pytest.fixture
def decoder(windowed_language_model):
    return ir.load(windowed_language_model / "decoder.onnx")


def count(model, operator):
    return sum(node.op_type == operator for node in model.graph)


def prompt(folder):
    """Of two rows."""
    signature = Manifest.read(folder).graph("decoder")
    sizes = {"batch": 2, "steps": 5, "attended": 5, "scored": 5}
    feeds = {name: tensor.numpy() for name, tensor in sample_inputs(signature, sizes).items()}
    feeds["start"] = np.zeros(2, np.int64)
    feeds["self_mask"] = np.tril(np.ones((5, 5), bool))[None, None].repeat(2, 0)
    return feeds


def assert_same_logits(model, folder, path):
    """What a decoder says is what the module says that it was made from, whatever was done to it."""
    ir.save(model, path)
    feeds, graphs = prompt(folder), checkpoint_named(Manifest.read(folder).source).graphs()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(["logits"], {one.name: feeds[one.name] for one in session.get_inputs()})
    eager = (eager_runners(graphs, dtype)["decoder"].run(feeds)["logits"] for dtype in (torch.float32, torch.float64))
    assert_rounded(found, *(buffer.numpy() for buffer in eager))


def test_queries_keys_and_values_become_one_product_in_that_order_and_a_gate_another(decoder):
    before = count(decoder, "MatMul")
    outcome = PackProducts()(decoder)
    assert (outcome.fired, outcome.missed) == (4, []), "two blocks, each with an attention and a gated MLP"
    assert count(decoder, "MatMul") == before - 2 * (2 + 1)
    assert "|".join([QUERY, KEY, VALUE]) in decoder.graph.initializers
    assert QUERY not in decoder.graph.initializers


def test_the_packed_graph_says_the_same(decoder, windowed_language_model, tmp_path):
    PackProducts()(decoder)
    assert_same_logits(decoder, windowed_language_model, tmp_path / "packed.onnx")


def test_the_runtimes_attention_reads_what_was_packed_unsplit_and_says_the_same(
    decoder, windowed_language_model, tmp_path
):
    for rewrite in (PackProducts, LowerCachedAttention, RotateInAttention):
        rewrite()(decoder)
    assert FeedAttentionPacked()(decoder).fired == 2
    (node, _) = (node for node in decoder.graph if node.op_type == "GroupQueryAttention")
    assert [value is None for value in node.inputs[:3]] == [False, True, True]
    assert count(decoder, "Split") == 2, "those of the gates"
    assert_same_logits(decoder, windowed_language_model, tmp_path / "packed.onnx")


def test_biases_are_packed_with_their_products(tiny_translator, tmp_path):
    decoder = ir.load(tiny_translator / "decoder.onnx")
    assert PackProducts()(decoder).fired == 2
    joined = [name for name in decoder.graph.initializers if "|" in name]
    assert sum(name.count(".bias") == 3 for name in joined) == 2


def test_the_attention_takes_no_other_order(decoder):
    PackProducts()(decoder)
    LowerCachedAttention()(decoder)
    RotateInAttention()(decoder)
    node = next(node for node in decoder.graph if node.op_type == "GroupQueryAttention")
    first, second = node.inputs[:2]
    node.replace_input_with(0, second)
    node.replace_input_with(1, first)
    assert FeedAttentionPacked()(decoder).fired == 1, "the other block's"


def test_a_second_run_fires_nothing(decoder):
    assert PackProducts()(decoder).fired == 4
    assert PackProducts()(decoder).fired == 0
    LowerCachedAttention()(decoder)
    RotateInAttention()(decoder)
    assert FeedAttentionPacked()(decoder).fired == 2
    assert FeedAttentionPacked()(decoder).fired == 0


def test_a_weight_that_others_read_too_is_left_alone(decoder):
    table = decoder.graph.initializers[QUERY]
    reader = ir.node("Identity", [table])
    reader.outputs[0].name = "again"
    decoder.graph.append(reader)
    decoder.graph.outputs.append(reader.outputs[0])
    assert PackProducts()(decoder).fired == 4, "keys and values are packed all the same"
    assert QUERY in decoder.graph.initializers


def test_a_product_whose_weight_is_of_another_kind_stays_alone(decoder, windowed_language_model, tmp_path):
    PackProducts({QUERY: "4 bits", KEY: "4 bits", VALUE: "8 bits"})(decoder)
    assert "|".join([QUERY, KEY]) in decoder.graph.initializers
    assert VALUE in decoder.graph.initializers
    assert_same_logits(decoder, windowed_language_model, tmp_path / "packed.onnx")


class TwoHeads(nn.Module):
    """What a class is, and where: both outputs."""

    def __init__(self):
        super().__init__()
        self.kind, self.place = nn.Linear(32, 10), nn.Linear(32, 4)

    def forward(self, x):
        return self.kind(x), self.place(x)


def test_products_that_are_outputs_keep_their_names():
    exported = traced(heads := TwoHeads(), 5, 32)
    assert PackProducts()(exported.model).fired == 1
    assert_computes(exported, heads)
