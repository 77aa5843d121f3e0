"""The comparisons of interpreted/ on a GPU, at sizes of real models: launched by Triton, and by the driver from PTX."""

import pytest
import torch

from models.kernels.skinny_product import skinny_product
from tests.models.agreement import difference
from tests.models.kernels.cases import (
    DTYPES,
    TOLERANCES,
    additive,
    append,
    decode,
    flash,
    gated,
    rotate,
    skinny,
    windows,
    worst,
)
from tests.models.kernels.on_gpu.cuda_driver import launch_by_driver

pytestmark = [
    pytest.mark.needs_gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
LAUNCHERS = ["flash_attention", "decode_attention", "decode_append_attention", "combine_splits", "window_attention"]
LAUNCHERS += ["additive_attention", "rotate_append", "gated_product", "skinny_product"]
# The hardware's exponential and three TF32 products a float32 product each err in the last places.
ON_GPU = {**TOLERANCES, "float32": 5e-5}
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
SIZES = (32, 64, 80, 96, 128, 256)
APPENDED = [(size, dtype) for size in SIZES for dtype in DTYPES if size <= 64 or dtype != "float32"]
GROUPED = {"heads": 8, "kv_heads": 2}


@pytest.fixture(params=["by Triton", "from PTX by the driver"], autouse=True)
def _launch(request, monkeypatch):
    if request.param != "by Triton":
        for stem in LAUNCHERS:
            monkeypatch.setattr(f"models.kernels.{stem}.launch", launch_by_driver)


def within(pairs, dtype):
    return worst(pairs) <= ON_GPU[dtype]


@every_dtype
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("size", SIZES)
def test_flash_attention(size, causal, dtype):
    lengths = {"queries": 333, "capacity": 1025, "lengths": [1025, 700, 333, 0]}
    assert within(flash(dtype=dtype, device="cuda", size=size, causal=causal, **lengths, **GROUPED), dtype)


@every_dtype
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("size", SIZES)
def test_flash_attention_of_one_product(size, causal, dtype):
    lengths = {"queries": 333, "capacity": 333, "lengths": [333, 300, 1, 0]}
    sizes = {"size": size, "causal": causal, "together": True, **lengths, **GROUPED}
    assert within(flash(dtype=dtype, device="cuda", **sizes), dtype)


@every_dtype
@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("size", SIZES)
def test_decode_attention(size, queries, dtype):
    lengths = {"capacity": 4099, "lengths": [4099, 1000, 4, 0], "splits": 16, "causal": True}
    assert within(decode(dtype=dtype, device="cuda", size=size, queries=queries, **lengths, **GROUPED), dtype)


@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
@pytest.mark.parametrize("layout", ["half", "interleaved", None])
@pytest.mark.parametrize(("size", "dtype"), APPENDED)
def test_decode_append_attention(size, dtype, layout, together):
    lengths = {"capacity": 2051, "lengths": [2050, 1000, 127, 0], "queries": 3, "splits": 16, "causal": True}
    sizes = {"size": size, "layout": layout, "together": together, **lengths, **GROUPED}
    assert within(append(dtype=dtype, device="cuda", **sizes), dtype)


@every_dtype
@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
@pytest.mark.parametrize("layout", ["half", "interleaved", None])
@pytest.mark.parametrize("size", SIZES)
def test_rotate_append(size, layout, together, dtype):
    lengths = {"capacity": 1100, "lengths": [1050, 1000, 127, 0], "queries": 100}
    sizes = {"size": size, "layout": layout, "together": together, **lengths, **GROUPED}
    assert within(rotate(dtype=dtype, device="cuda", **sizes), dtype)


@every_dtype
@pytest.mark.parametrize("cosine", [False, True], ids=["product", "cosine"])
@pytest.mark.parametrize("window", [7, 8, 12, 16])
def test_window_attention(window, cosine, dtype):
    sizes = {"window": window, "shift": window // 2, "heads": 6, "size": 32, "down": 8, "across": 8}
    assert within(windows(dtype=dtype, device="cuda", cosine=cosine, **sizes), dtype)


@every_dtype
@pytest.mark.parametrize("source", [1, 50, 600, 2048])
def test_additive_attention(source, dtype):
    assert within(additive(dtype=dtype, device="cuda", batch=8, source=source, width=512, columns=1024), dtype)


@every_dtype
def test_gated_product(dtype):
    assert worst(gated(dtype=dtype, device="cuda", width=5632, rows=(8, 100))) <= 8 * ON_GPU[dtype]  # numbers up to 8


@every_dtype
@pytest.mark.parametrize("around", ["gate", "residual", None])
@pytest.mark.parametrize("norm", ["rms", "layer", None])
@pytest.mark.parametrize("rows", [1, 2])
def test_skinny_product(rows, norm, around, dtype):
    sizes = {"rows": rows, "width": 5632, "columns": 2049, "norm": norm, "around": around}
    assert worst(skinny(dtype=dtype, device="cuda", **sizes)) <= 8 * ON_GPU[dtype]  # numbers up to 20


def test_skinny_products_wait_for_what_they_read():
    device, width = torch.device("cuda"), 2048
    weights = torch.randn(40, width, width, generator=torch.Generator().manual_seed(0)).to(device) / width**0.5

    def chain(multiply):
        x = torch.ones(1, width, device=device)
        for weight in weights:
            x = multiply(x, weight)
        return x

    wanted = chain(lambda x, weight: (x.double() @ weight.double().T).float())
    for _ in range(20):
        assert difference(chain(skinny_product), wanted) < 1e-3
