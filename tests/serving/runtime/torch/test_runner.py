"""The torch runner beside the eager modules, over every family; what it writes, and what it refuses.

On a CPU, the recorder of CUDA graphs is a stand-in (tests/serving/runtime/torch_devices.py).
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attendant.errors import InputError
from export.graph.axes import axes_of
from export.graph.sample_inputs import sample_inputs
from export.parity.eager import EagerRunner
from export.precision.precisions import PRECISIONS, signatures_in
from models.checkpoints.resolve import checkpoint_named
from models.layers.recurrent import Recurrent
from models.presets import PRESETS
from serving.runtime.base import ArrayBuffer
from serving.runtime.cached_decoder import MOVING, CachedDecoder
from serving.runtime.torch.buffer import TorchBuffer, torch_dtype
from serving.runtime.torch.runner import TorchRunner
from tests.serving.runtime.torch_devices import DEVICES, ReplayedOnCpu

TINY = sorted(name for name in PRESETS if name.endswith("-tiny"))
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCES = {"fp32": 2e-5, "fp16": 2e-2, "bf16": 2e-1}


def graphs_of(name, precision="fp32"):
    graphs = checkpoint_named(name).graphs()
    plain = (replace(graph.signature, axes=axes_of(graph)) for graph in graphs)
    converted = signatures_in(PRECISIONS[precision], plain)
    return [replace(graph, signature=signature) for graph, signature in zip(graphs, converted, strict=True)]


def torch_runner(graph, precision="fp32", device="cpu", recorder=None):
    module = copy.deepcopy(graph.module)
    return TorchRunner(graph.signature, module, torch.device(device), DTYPES[precision], graph.below, recorder)


def numbers(array):
    """An array's values; those of bfloat16 come as bits."""
    if array.dtype == np.uint16:
        return torch.from_numpy(array).view(torch.bfloat16).float().numpy()
    return array.astype(np.float64)


def sizes_of(signature):
    return {
        symbol: max(axis.min, min(2 if symbol == "batch" else 3, axis.max)) for symbol, axis in signature.axes.items()
    }


def fed(runner, tensors):
    """Tensors as a runner takes them: in its types, and what it remembers in buffers of its own."""
    feeds = {}
    for spec in runner.signature.inputs:
        tensor = tensors[spec.name].to(torch_dtype(spec.dtype))
        feeds[spec.name] = TorchBuffer(tensor).numpy()
        if spec.name in runner.signature.aliases.values():
            feeds[spec.name] = runner.allocate(spec.name, {"batch": len(tensor)})
            feeds[spec.name].write(TorchBuffer(tensor).numpy())
    return feeds


def has_recurrence(graph):
    return any(isinstance(part, Recurrent) for part in graph.module.modules())


@pytest.mark.filterwarnings("ignore:RNN module weights")  # torch puts none in bfloat16 into one piece for cuDNN
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", TINY)
def test_every_graph_of_every_family_gives_the_eager_modules_numbers(name, precision, device):
    for plain, graph in zip(graphs_of(name), graphs_of(name, precision), strict=True):
        tensors = sample_inputs(plain.signature, sizes_of(plain.signature))
        recorder = ReplayedOnCpu() if device == "cpu" else None
        runner, eager = torch_runner(graph, precision, device, recorder), EagerRunner(plain, torch.float64)
        exact = eager.run(
            {
                name: ArrayBuffer(tensor.double().numpy()) if tensor.is_floating_point() else tensor.numpy()
                for name, tensor in tensors.items()
            }
        )
        for _ in range(1 if graph.signature.aliases else 3):  # what remembers nothing is recorded when it comes again
            found = runner.run(fed(runner, tensors))
        assert found.keys() == exact.keys()
        assert graph.signature.aliases or has_recurrence(graph) or len(runner.recordings) == 1
        for output in graph.signature.outputs:
            want, have = exact[output.name].numpy(), numbers(found[output.name].numpy())
            np.testing.assert_allclose(have, want, atol=TOLERANCES[precision] * max(1, np.abs(want).max()))


def decoders(name="llama-tiny", device="cpu", recorder=None, rows=3):
    """A cached decoder of a runner, and its recorder."""
    (*_, graph) = graphs_of(name)
    runner = torch_runner(graph, device=device, recorder=recorder)
    tensors = sample_inputs(graph.signature, {**sizes_of(graph.signature), "batch": rows})
    memories = {name: tensor.numpy() for name, tensor in tensors.items() if name not in MOVING}
    first = {name.removesuffix("_in"): memory for name, memory in memories.items()}
    return CachedDecoder(runner, rows, first | memories), runner


STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.lists(st.integers(0, 8), min_size=3, max_size=3)), min_size=1, max_size=4
)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, recorded=st.booleans())
def test_a_step_writes_the_new_positions_of_its_rows_and_nothing_else_and_no_buffer_moves(steps, recorded):
    decoder, _ = decoders(recorder=ReplayedOnCpu() if recorded else None)
    addresses = [buffer.address for buffer in decoder.caches.values()]
    for count, starts in steps:
        before = [buffer.numpy().copy() for buffer in decoder.caches.values()]
        decoder.step(np.full((3, count), 5), np.array(starts))
        for old, buffer in zip(before, decoder.caches.values(), strict=True):
            changed = np.stack([np.isin(np.arange(old.shape[2]), np.arange(start, start + count)) for start in starts])
            written = (old != buffer.numpy()).any(axis=(1, 3))
            assert not (written & ~changed).any()
            assert (buffer.numpy() != 0).any(axis=(1, 3))[changed].all()
    assert [buffer.address for buffer in decoder.caches.values()] == addresses


@pytest.mark.parametrize(
    "name", ["llama-tiny", "transformer-tiny", "t5-tiny", "lstm-seq2seq-tiny", "show-attend-tell-tiny"]
)
@pytest.mark.parametrize("device", DEVICES)
def test_replayed_steps_are_those_that_are_not_recorded(name, device):
    plain, _ = decoders(name, "cpu")
    replayed, runner = decoders(name, device, ReplayedOnCpu() if device == "cpu" else None)
    for position in range(6):
        token_ids, start = (
            np.array([[position + 3], [4], [9 - position]]),
            np.array([position, 0, max(0, position - 2)]),
        )
        wanted, found = (decoder.step(token_ids, start) for decoder in (plain, replayed))
        for output, array in wanted.items():
            np.testing.assert_allclose(found[output], array, atol=2e-5 * max(1, np.abs(array).max()))
    for name, buffer in plain.caches.items():
        np.testing.assert_allclose(replayed.caches[name].numpy(), buffer.numpy(), atol=2e-5)
    assert len(runner.recordings) == 1


def test_a_recording_is_made_for_each_batch_size_and_bucket_and_of_prompts_that_come_again():
    recorder = ReplayedOnCpu()
    (graph,) = graphs_of("llama-tiny")
    runner = torch_runner(graph, recorder=recorder)
    blocks = {name: runner.allocate(name, {"batch": 4}) for name in graph.signature.aliases.values()}
    for rows, prompts in ((1, 0), (4, 0), (1, 1), (2, 1), (4, 2)):
        parts = {name: block.part(0, (rows, *block.tensor.shape[1:])) for name, block in blocks.items()}
        decoder = CachedDecoder.over(runner, parts, {})
        decoder.step(np.full((rows, 3), 5), np.zeros(rows, dtype=np.int64))
        decoder.step(np.full((rows, 1), 5), np.full(rows, 3))
        assert len(runner.prompts) == prompts
    assert len(runner.recordings) == 3
    assert recorder.recorded == 5


@pytest.mark.parametrize("name", ["llama-tiny", "mistral-tiny", "transformer-tiny", "t5-tiny"])
@pytest.mark.parametrize("device", DEVICES)
def test_prompts_that_are_filled_up_and_replayed_are_those_that_are_not(name, device):
    plain, _ = decoders(name, "cpu")
    replayed, runner = decoders(name, device, ReplayedOnCpu() if device == "cpu" else None)
    capacity = plain.capacity
    for width, start in ((2, 0), (2, 2), (9, 0), (10, 0), (capacity, 0), (capacity - 1, 0), (capacity - 1, 1), (3, 1)):
        if width + start > capacity:
            continue
        token_ids, starts = np.arange(3 * width).reshape(3, width) % 20 + 3, np.array([start, 0, start // 2])
        wanted, found = (decoder.step(token_ids, starts) for decoder in (plain, replayed))
        for output, array in wanted.items():
            np.testing.assert_allclose(found[output], array, atol=2e-5 * max(1, np.abs(array).max()))
        written = (np.arange(capacity)[None] < starts[:, None] + width)[:, None, :, None]
        for cache, buffer in plain.caches.items():
            np.testing.assert_allclose(replayed.caches[cache].numpy() * written, buffer.numpy() * written, atol=2e-5)
    assert len(runner.prompts) >= 1


def test_what_a_replay_returned_outlives_the_next_one():
    decoder, runner = decoders(recorder=ReplayedOnCpu())
    outputs = [
        runner.run({**STEP, "token_ids": np.full((3, 1), token), **decoder.caches})["logits"] for token in (5, 6)
    ]
    assert (outputs[0].numpy() != outputs[1].numpy()).any()
    again = runner.run({**STEP, "token_ids": np.full((3, 1), 5), **decoder.caches})["logits"]
    np.testing.assert_array_equal(outputs[0].numpy(), again.numpy())  # the same computation twice, in one process


STEP = {
    "token_ids": np.full((3, 1), 5),
    "start": np.zeros(3, dtype=np.int64),
    "self_mask": np.ones((3, 1, 1, 1), dtype=bool),
    "scored": np.zeros((3, 1), dtype=np.int64),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_ids": np.full((3, 1), 31)}, "token_ids from 0 to 30; found 31"),
        ({"start": np.full(3, 1)}, "start from 0 to 0; found 1"),
        ({"token_ids": np.full((3, 1), 5, dtype=np.int32)}, r"int64 and shape \[batch, steps\]; found int32"),
        ({"self_mask": np.ones((3, 1, 1, 13), dtype=bool)}, "at most 12 along axis 'attended'"),
        ({"more": np.zeros(1)}, r"unknown \['more'\]"),
        ({"self_00_key_in": np.zeros((3, 2, 12, 4), dtype=np.float32)}, r"runner\.allocate"),
    ],
)
@pytest.mark.parametrize("recorder", [None, ReplayedOnCpu()])
def test_what_the_signature_or_a_table_does_not_admit_is_refused_before_it_reaches_a_device(change, message, recorder):
    decoder, runner = decoders(recorder=recorder)
    with pytest.raises(InputError, match=message):
        runner.run({**STEP, **decoder.caches, **change})


def test_a_buffer_of_another_runtime_is_read_as_an_array():
    encoder, _ = graphs_of("transformer-tiny")
    feeds = {"source_ids": np.array([[3, 4]]), "source_mask": np.ones((1, 2), dtype=bool)}
    runner = torch_runner(encoder)
    wanted = runner.run(feeds)
    found = runner.run({name: ArrayBuffer(array) for name, array in feeds.items()})
    # The same computation twice, in one process.
    assert all((found[name].numpy() == wanted[name].numpy()).all() for name in wanted)


def test_buffers_are_zeroed_and_within_the_bounds_of_the_graph():
    (graph,) = graphs_of("llama-tiny")
    runner = torch_runner(graph)
    assert not runner.allocate("self_00_key_in", {"batch": 2}).numpy().any()
    with pytest.raises(InputError, match="at most 32"):
        runner.allocate("self_00_key_in", {"batch": 33})
