import copy
from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from attendant.signature import GraphSignature, TensorSpec
from export.graph.onnx_graph import onnx_from_torch
from models.layers.recurrent import CELLS, Recurrent
from models.task_graph import TaskGraph
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort.runner import OrtRunner
from tests.export.passes.modules import assert_computes, traced
from tests.models.agreement import assert_rounded
from tests.models.checkpoints.folders import tiny_checkpoint
from tests.models.layers.recurrent_by_loops import recurrent_by_loops

INPUT, WIDTH = 5, 7
# Batch sizes and lengths other than those of the tracing, a row of padding alone, and every row full.
LENGTHS = {"batch 4": (6, 3, 0, 1), "batch 1": (3,), "batch 3, full": (9, 9, 9)}
WHOLE = "batch 3, full"
VIEWS = {"Unsqueeze", "Squeeze", "Reshape", "Identity", "Flatten"}


class EveryCell(nn.Module):
    """The three cells: both ways from zero over padding, and one way from given states."""

    def __init__(self):
        super().__init__()
        self.both = nn.ModuleList(Recurrent(cell, INPUT, WIDTH, bidirectional=True) for cell in CELLS)
        self.one = nn.ModuleList(Recurrent(cell, INPUT, WIDTH) for cell in CELLS)

    def forward(self, inputs, mask, hidden, memory):
        results = []
        for layer, onward in zip(self.both, self.one, strict=True):
            outputs, states = layer(inputs, mask)
            first = (hidden[None], memory[None])[: len(states)]
            further, last = onward(inputs, initial=first)
            results += [outputs, *(state[0] for state in states), *(state[1] for state in states)]
            results += [further, *(state[0] for state in last)]
        return results


def specs(names, axes):
    return tuple(TensorSpec(name=name, dtype="float32", axes=axes) for name in names)


def every_cell():
    """The module as a graph: outputs are named ``<cell>_<what>``."""
    outputs = []
    for cell in CELLS:
        parts = ["hidden", "memory"] if cell == "lstm" else ["hidden"]
        outputs += specs([f"{cell}_both"], ("batch", "source", 2 * WIDTH))
        outputs += specs(
            [f"{cell}_{way}_{part}" for way in ("forward", "backward") for part in parts], ("batch", WIDTH)
        )
        outputs += specs([f"{cell}_onward"], ("batch", "source", WIDTH))
        outputs += specs([f"{cell}_onward_{part}" for part in parts], ("batch", WIDTH))
    inputs = (
        *specs(["inputs"], ("batch", "source", INPUT)),
        TensorSpec(name="mask", dtype="bool", axes=("batch", "source")),
        *specs(["hidden", "memory"], ("batch", WIDTH)),
    )
    torch.manual_seed(0)
    module = EveryCell().eval().requires_grad_(False)
    signature = GraphSignature(name="model", inputs=inputs, outputs=tuple(outputs))
    return TaskGraph(signature=signature, module=module, largest={"source": 50})


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    graph, path = every_cell(), tmp_path_factory.mktemp("graphs") / "model.onnx"
    onnx_from_torch(graph).write(path.parent)
    return graph, onnx.load(path)


def feeds_of(case):
    lengths = np.array(LENGTHS[case])
    rng = np.random.default_rng(0)
    rows, longest = len(lengths), lengths.max()
    return {
        "inputs": rng.normal(size=(rows, longest, INPUT)).astype(np.float32),
        "mask": np.arange(longest) < lengths[:, None],
        "hidden": rng.normal(size=(rows, WIDTH)).astype(np.float32),
        "memory": rng.normal(size=(rows, WIDTH)).astype(np.float32),
    }


def by_loops(module, case, dtype=np.float64):
    """The outputs in their order, from the formulas."""
    feeds, results = feeds_of(case), []
    inputs, lengths = feeds["inputs"].astype(dtype), LENGTHS[case]
    for layer, onward in zip(module.both, module.one, strict=True):
        outputs, states = recurrent_by_loops(layer.cell, inputs, lengths, weights_of(layer, dtype))
        first = [feeds[name].astype(dtype)[None] for name in ("hidden", "memory")][: len(states)]
        whole = [inputs.shape[1]] * len(lengths)
        further, last = recurrent_by_loops(layer.cell, inputs, whole, weights_of(onward, dtype), first)
        results += [outputs, *(state[0] for state in states), *(state[1] for state in states)]
        results += [further, *(state[0] for state in last)]
    return results


def weights_of(layer, dtype):
    return [weight.numpy().astype(dtype) for weight in layer.parameters()]


def by_onnxruntime(model, case):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds_of(case))


def worst(found, wanted):
    assert [array.shape for array in found] == [array.shape for array in wanted]
    return max(np.abs(array - other).max() for array, other in zip(found, wanted, strict=True))


def assert_every_rounded(found, module, case):
    for parts in zip(found, by_loops(module, case, np.float32), by_loops(module, case), strict=True):
        assert_rounded(*parts)


@pytest.mark.parametrize("case", LENGTHS)
def test_onnx_runtimes_own_nodes_compute_the_formulas_at_every_batch_length_and_padding(exported, case):
    graph, model = exported
    assert_every_rounded(by_onnxruntime(model, case), graph.module, case)


def test_the_reference_evaluator_of_onnx_agrees_where_nothing_is_padded(exported):
    graph, model = exported  # it does not look at sequence_lens
    found = ReferenceEvaluator(model).run(None, feeds_of(WHOLE))
    assert_every_rounded(found, graph.module, WHOLE)


@pytest.mark.planted
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("tensor", ["W", "R", "B"])
def test_two_rows_of_a_nodes_weights_that_change_places_are_seen(exported, cell, tensor):
    graph, model = exported
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    node = next(node for node in changed.graph.node if node.op_type == cell.upper())
    name = node.input["XWRB".index(tensor)]
    weight = next(weight for weight in changed.graph.initializer if weight.name == name)
    array = numpy_helper.to_array(weight).copy()
    array[0, [0, WIDTH - 1]] = array[0, [WIDTH - 1, 0]]
    weight.CopyFrom(numpy_helper.from_array(array, name))
    assert worst(by_onnxruntime(changed, WHOLE), by_loops(graph.module, WHOLE)) > 1e-3


def test_each_layer_is_one_node_and_its_weights_are_constants_of_the_graph(exported):
    graph, model = exported
    counts = Counter(node.op_type for node in model.graph.node)
    assert {cell: counts[cell.upper()] for cell in CELLS} == dict.fromkeys(CELLS, 2)
    constants = {tensor.name for tensor in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type.lower() in CELLS]
    assert all(set(node.input[1:4]) <= constants for node in nodes)
    parameters = sum(parameter.numel() for parameter in graph.module.parameters())
    assert 0 <= sum(np.prod(tensor.dims) for tensor in model.graph.initializer) - parameters < 20, "no weight twice"


@pytest.fixture(scope="module", params=["rnn-seq2seq-tiny", "lstm-seq2seq-tiny", "gru-seq2seq-tiny"])
def decoder(request, tmp_path_factory):
    """The decoder graph of a tiny translator, its file, and the model."""
    checkpoint = tiny_checkpoint(request.param)
    graph, path = checkpoint.graphs()[1], tmp_path_factory.mktemp("graphs") / "decoder.onnx"
    onnx_from_torch(graph).write(path.parent)
    return graph, path, checkpoint.model


def test_whatever_reads_a_state_has_read_it_before_it_is_overwritten(decoder):
    graph, path, _ = decoder
    for after, before in graph.signature.aliases.items():
        readers, late = readers_of(onnx.load(path), before, after)
        assert readers and not late


@pytest.mark.planted
def test_a_reader_that_may_come_too_late_is_seen():
    view = helper.make_node("Identity", ["state_in"], ["view"])
    early = helper.make_node("Neg", ["state_in"], ["state_out"])
    late = helper.make_node("Abs", ["view"], ["logits"])
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("state_in", "state_out")]
    model = helper.make_model(helper.make_graph([view, early, late], "step", values[:1], values[1:]))
    assert readers_of(model, "state_in", "state_out") == ({"Neg", "Abs", "Identity"}, {"Abs", "Identity"})


def readers_of(model, before, after):
    """The operators that read a tensor, through views of it too, and those that may run when it is overwritten."""
    nodes = list(model.graph.node)
    names, readers = {before}, {}
    for node in nodes:
        if names & set(node.input):
            readers[node.output[0]] = node.op_type
            names |= set(node.output) if node.op_type in VIEWS else set()
    needed = {after}
    for node in reversed(nodes):
        needed |= set(node.input) if needed & set(node.output) else set()
    return set(readers.values()), {kind for output, kind in readers.items() if output not in needed}


@pytest.mark.parametrize("lengths", [(5, 2, 1), (3,)], ids=["batch 3", "batch 1"])
def test_the_states_of_onnx_runtime_stay_in_their_buffers_and_equal_those_of_the_eager_model(decoder, lengths):
    graph, path, model = decoder
    generator = torch.Generator().manual_seed(3)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    models = model, copy.deepcopy(model).double()
    source_ids = torch.randint(3, 29, mask.shape, generator=generator)
    memories, states = zip(*(one.encode(source_ids, mask) for one in models), strict=True)
    tokens = torch.randint(3, 29, (len(lengths), 4), generator=generator)
    running = CachedDecoder(
        OrtRunner(path, graph.signature), len(lengths), given_to(graph.signature, memories[0], states[0], mask)
    )
    addresses = {name: buffer.address for name, buffer in running.caches.items()}
    for column in tokens.split(1, dim=1):
        stepped = (one.step(column, *given, mask) for one, *given in zip(models, states, memories, strict=True))
        logits, states, alignments = zip(*stepped, strict=True)
        outputs = running.step(column.numpy(), np.zeros(len(lengths), dtype=np.int64))
        assert_rounded(outputs["logits"], *logits)
        if alignments[0] is not None:
            assert_rounded(outputs["alignment"], *alignments)
        for number, pair in enumerate(zip(*states, strict=True)):
            assert_rounded(running.caches[f"state_{number:02d}_in"].numpy(), *pair)
    assert {name: buffer.address for name, buffer in running.caches.items()} == addresses


def given_to(signature, memory, states, mask):
    """What an encoder graph would hand over, by name."""
    inputs = [spec.name for spec in signature.inputs]
    memories = dict(zip([name for name in inputs if name in ("context", "memory", "memory_keys")], memory, strict=True))
    first = {f"state_{number:02d}": state for number, state in enumerate(states)}
    return {name: tensor.numpy() for name, tensor in {**memories, **first, "source_mask": mask}.items()}


STEPS, HEAD = 6, 8
BELOW = torch.ones(STEPS, STEPS).tril().bool()
MASKS = {
    "none": lambda x, scores: {},
    "causal": lambda x, scores: {"is_causal": True},
    "scaled": lambda x, scores: {"scale": 0.1},
    "one of booleans": lambda x, scores: {"attn_mask": BELOW},
    "one row": lambda x, scores: {"attn_mask": BELOW[3:4]},
    "a bias of its own": lambda x, scores: {"attn_mask": scores},
    "a row of its own": lambda x, scores: {"attn_mask": x[..., :1].transpose(-1, -2)},
    "booleans of its own": lambda x, scores: {"attn_mask": (scores > 0) | BELOW},
}
AXES = {"no heads": (), "an axis in front of heads": (2, 3), "two axes in front of heads": (2, 2, 3)}


class Attends(nn.Module):
    """Attention of x [batch, *axes, steps, width], whose values have another width."""

    def __init__(self, mask):
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = nn.Linear(HEAD, HEAD), nn.Linear(HEAD, HEAD), nn.Linear(HEAD, 12)
        self.mask = mask

    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        given = self.mask(x, query @ key.transpose(-1, -2))
        return scaled_dot_product_attention(query, key, value, **given)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("axes", AXES)
def test_attention_is_that_of_float64_whatever_axes_stand_in_front(axes, mask):
    sizes, module = (*AXES[axes], STEPS, HEAD), Attends(MASKS[mask])
    exported = traced(module, *sizes)
    assert [node.op_type for node in exported.model.graph].count("Attention") == 1
    assert_computes(exported, module)


MASKS_OF_FIVE = {"heads": (3, 1, 1), "rows and heads": (2, 3, 1, 1), "rows": (2, 1, 1, 1), "one": (1, 1, 1, 1)}


@pytest.mark.parametrize("shared", MASKS_OF_FIVE)
def test_a_mask_is_shared_among_the_axes_that_it_lacks(shared):
    bias = torch.randn(*MASKS_OF_FIVE[shared][:-2], STEPS, STEPS, generator=torch.Generator().manual_seed(2))
    module = Attends(lambda x, scores: {"attn_mask": bias.to(x.dtype)})
    assert_computes(traced(module, 2, 3, STEPS, HEAD), module)


class ChoosesAmongBooleans(nn.Module):
    """Booleans chosen by a condition, by torch's three spellings, and numbers chosen likewise."""

    def forward(self, x):
        condition, first, second = x > 0, x[..., :1] > 0.5, x < 1
        chosen = torch.where(condition, first, second), first.masked_fill(condition, False), second & condition
        kept = torch.where(condition, torch.ones_like(second), second)
        return (*(one.float() for one in (*chosen, kept)), torch.where(condition, x, 0.0))


def test_booleans_are_chosen_among_as_numbers_are():
    assert_computes(traced(module := ChoosesAmongBooleans(), 3, 4), module)
