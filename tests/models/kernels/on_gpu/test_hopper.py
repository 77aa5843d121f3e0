"""Hopper's prefill on a GPU, beside the plain reference in float64; what lies behind a row's length is NaN."""

import pytest
import torch

from models.kernels.flash_attention_reference import flash_attention_reference
from tests.models.kernels.cases import TOLERANCES, attention_inputs, hopper_flash, worst


def is_hopper():
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


pytestmark = [
    pytest.mark.needs_gpu,
    pytest.mark.skipif(not is_hopper(), reason="needs a GPU of capability 9.0"),
]
GROUPS = {"one key head a query head": (4, 4), "grouped": (8, 2), "one key head": (8, 1)}
SIZES = {
    "rows of several lengths": {"lengths": [1025, 700, 333, 0], "queries": 333, "capacity": 1025},
    "no padding": {"lengths": [1024, 1024], "queries": 1024, "capacity": 1024},
    "a prompt behind a long cache": {"lengths": [4000, 129], "queries": 129, "capacity": 4096},
    "more queries than keys": {"lengths": [40, 1], "queries": 300, "capacity": 70},
    "a length behind the capacity": {"lengths": [900, 64], "queries": 64, "capacity": 640},
    "more blocks than multiprocessors": {"lengths": [2048, 2000, 1, 77], "queries": 2048, "capacity": 2048},
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_it_attends_as_the_reference_does(sizes, group, size, causal, dtype):
    heads, kv_heads = GROUPS[group]
    pairs = hopper_flash(dtype=dtype, heads=heads, kv_heads=kv_heads, size=size, causal=causal, **sizes)
    assert worst(pairs) <= TOLERANCES[dtype]


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_lengths_of_either_type_and_any_scale_do(scale, index):
    sizes = {**SIZES["rows of several lengths"], "heads": 8, "kv_heads": 2, "size": 128, "index": index}
    assert worst(hopper_flash(dtype="bfloat16", causal=True, scale=scale, **sizes)) <= TOLERANCES["bfloat16"]


def test_the_same_call_gives_the_same_bits_each_time():
    from models.kernels.hopper_flash_attention import hopper_flash_attention

    sizes = {**SIZES["more blocks than multiprocessors"], "heads": 8, "kv_heads": 2, "size": 128}
    q, k, v, lengths = attention_inputs("float16", "cuda", **sizes)
    first, *others = (hopper_flash_attention(q, k, v, lengths, True) for _ in range(20))
    # Each block sums in one order, whichever warp group comes first.
    assert all(torch.equal(first, other) for other in others)


def test_a_recorded_launch_reads_what_lies_at_its_addresses():
    from models.kernels.hopper_flash_attention import hopper_flash_attention

    sizes = {**SIZES["no padding"], "heads": 4, "kv_heads": 4, "size": 64}
    q, k, v, lengths = attention_inputs("float16", "cuda", **sizes)
    hopper_flash_attention(q, k, v, lengths, True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = hopper_flash_attention(q, k, v, lengths, True)
    q.copy_(torch.randn_like(q))
    graph.replay()
    torch.cuda.synchronize()
    wanted = flash_attention_reference(q.double(), k.double(), v.double(), lengths, True, None)
    assert worst([(found, wanted)]) <= TOLERANCES["float16"]


def test_the_torch_runner_takes_it_for_a_prompt_and_gives_torchs_numbers():
    from models.layers.attend import attend_in_groups
    from serving.runtime.torch.attention import fused_attention

    attention, calls = fused_attention(torch.device("cuda")), []
    assert attention._hopper is not None
    by_hopper = attention._hopper
    attention._hopper = lambda *arguments: calls.append(arguments) or by_hopper(*arguments)
    q, k, v, _ = attention_inputs("float16", "cuda", **SIZES["no padding"], heads=8, kv_heads=2, size=128)
    attention.begin({})
    found = attention(q, k, v)
    assert len(calls) == 1
    assert worst([(found, attend_in_groups(q, k, v))]) <= TOLERANCES["float16"]
