import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from models.checkpoints.resolve import checkpoint_named
from models.layers.kv_cache import CacheWriter, InPlaceWriter, tensor_scatter, write_in_place


def one_node_model():
    cache, new = ["B", "H", "M", "D"], ["B", "H", "S", "D"]
    node = helper.make_node("TensorScatter", ["cache", "new", "start"], ["present"], axis=-2)
    inputs = [
        helper.make_tensor_value_info("cache", TensorProto.FLOAT, cache),
        helper.make_tensor_value_info("new", TensorProto.FLOAT, new),
        helper.make_tensor_value_info("start", TensorProto.INT64, ["B"]),
    ]
    present = helper.make_tensor_value_info("present", TensorProto.FLOAT, cache)
    graph = helper.make_graph([node], "scatter", inputs, [present])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])


MODEL = one_node_model()
REFERENCE = ReferenceEvaluator(MODEL)


def sample(batch=2, heads=3, capacity=5, steps=2, size=4, starts=(0, 3)):
    generator = torch.Generator().manual_seed(0)
    cache = torch.randn(batch, heads, capacity, size, generator=generator)
    new = torch.randn(batch, heads, steps, size, generator=generator)
    return cache, new, torch.tensor(starts)


def by_onnx(cache, new, start):
    feeds = {"cache": cache.numpy(), "new": new.numpy(), "start": start.numpy()}
    return torch.from_numpy(REFERENCE.run(None, feeds)[0])


def test_the_one_node_model_is_valid_onnx():
    onnx.checker.check_model(MODEL)


@st.composite
def calls(draw):
    batch, heads, size = (draw(st.integers(1, 3)) for _ in range(3))
    capacity = draw(st.integers(1, 6))
    steps = draw(st.integers(1, capacity))
    starts = draw(st.lists(st.integers(0, capacity - steps), min_size=batch, max_size=batch))
    return sample(batch, heads, capacity, steps, size, starts)


@given(calls())
def test_it_does_what_the_onnx_operator_of_the_same_name_does(call):
    assert torch.equal(tensor_scatter(*call), by_onnx(*call))  # numbers are moved, and none is computed


@pytest.mark.planted
def test_a_start_that_is_wrong_by_one_is_seen_by_the_comparison_with_onnx():
    cache, new, start = sample()
    assert not torch.equal(tensor_scatter(cache, new, start), by_onnx(cache, new, start - torch.tensor([0, 1])))


def test_every_row_is_written_behind_its_own_start_and_nowhere_else():
    cache, new, start = sample()
    present = tensor_scatter(cache, new, start)
    for row, begin in enumerate(start.tolist()):
        np.testing.assert_array_equal(present[row, :, begin : begin + 2], new[row])
    untouched = (present == cache).all(-1).all(1)
    assert untouched.tolist() == [[False, False, True, True, True], [True, True, True, False, False]]


def test_the_cache_that_was_given_is_not_changed():
    cache, new, start = sample()
    before = cache.clone()
    tensor_scatter(cache, new, start)
    assert torch.equal(cache, before)  # numbers are moved, and none is computed


def test_an_entry_behind_the_capacity_is_refused():
    with pytest.raises(RuntimeError, match="index 5 is out of bounds for dimension 2 with size 5"):
        tensor_scatter(*sample(starts=(0, 4)))


@pytest.mark.parametrize(
    "shape", [{}, {"batch": 1, "steps": 1, "starts": (4,)}, {"batch": 1, "steps": 5, "starts": (0,)}]
)
def test_pytorch_finds_no_fault_with_the_custom_operator(shape):
    torch.library.opcheck(tensor_scatter, sample(**shape))


@given(calls())
def test_written_in_place_a_cache_is_what_the_operator_returns_and_stays_where_it_is(call):
    cache, new, start = call
    pair, others = (cache.clone(), cache.flip(0).clone()), (new, new.flip(1))
    wanted = [tensor_scatter(one, other, start) for one, other in zip(pair, others, strict=True)]
    writer = InPlaceWriter(pair, start, cache.shape[2])
    seen = writer(*others)
    # Numbers are moved, and none is computed.
    assert all(torch.equal(one, other) for one, other in zip(pair, wanted, strict=True))
    assert [one.data_ptr() for one in (*writer.present, *seen)] == 2 * [one.data_ptr() for one in pair]


def test_only_the_decoders_inside_a_module_that_is_told_to_write_in_place():
    told, other = (checkpoint_named("llama-tiny").model for _ in range(2))
    write_in_place(torch.nn.ModuleList([told]))
    assert (told.writer, other.writer) == (InPlaceWriter, CacheWriter)
