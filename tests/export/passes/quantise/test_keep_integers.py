import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from export.passes.quantise.block_quantisers import Blocks
from export.passes.quantise.keep_integers import KeepIntegers, KeptMatrix, join_columns
from export.passes.quantise.quantise_weights_only import QuantiseWeightsOnly
from tests.export.passes.layers import answers, layer, runtimes_own
from tests.export.passes.quantise.test_quantise_weights import NONE

WIDTH, OUT, BLOCK = 256, 24, 64
SHAPE = WIDTH // BLOCK, OUT
FORMS = ["4 bits", "8 bits", "a scale a column", "zero points", "minima"]


def blocks_of(form):
    """Levels, scales of half precision, and zero points or minima, at random."""
    random = np.random.default_rng(2)
    scale = (random.random(SHAPE) / 8 + 0.01).astype(np.float16).astype(np.float32)
    if form in ("8 bits", "a scale a column"):
        levels = random.integers(-128, 128, (WIDTH, OUT)).astype(np.int8)
        return Blocks(levels=levels, scale=scale if form == "8 bits" else scale[:1])
    if form == "4 bits":
        return Blocks(levels=random.integers(-8, 8, (WIDTH, OUT)).astype(ml_dtypes.int4), scale=scale)
    levels = random.integers(0, 16, (WIDTH, OUT)).astype(ml_dtypes.uint4)
    if form == "zero points":
        return Blocks(levels=levels, scale=scale, zero=random.integers(0, 16, SHAPE).astype(np.float32))
    minimum = (random.random(SHAPE) * 9).astype(np.float16).astype(np.float32)
    scale[1, 3] = 0  # as a block of equal numbers has it
    return Blocks(levels=levels, scale=scale, minimum=minimum)


def kept_layer(form):
    """A layer whose weight is what blocks stand for; the blocks; what the pass knows."""
    blocks, model = blocks_of(form), layer(WIDTH, OUT)
    model.graph.initializers["weight"].const_value = ir.tensor(blocks.dequantise(), name="weight")
    return model, blocks, {"weight": KeptMatrix(kind=(), read=lambda: blocks)}


def weights_of(model):
    return {name: one.const_value.numpy() for name, one in model.graph.initializers.items()}


@pytest.mark.parametrize("form", FORMS)
def test_a_product_keeps_the_very_levels_and_scales(form):
    model, blocks, kept = kept_layer(form)
    done = KeepIntegers(kept)(model)
    assert (done.fired, done.refused, done.kept, done.missed) == (1, [], [], [])
    weights = weights_of(model)
    assert np.array_equal(weights[f"weight.{blocks.levels.dtype.name}"].astype(int), blocks.levels.astype(int))
    assert np.array_equal(weights["weight.scale"].reshape(blocks.scale.shape), blocks.scale)
    assert ("weight.zero_point" in weights) == (form in ("8 bits", "zero points", "minima"))
    assert ("weight.shift" in weights) == (form == "minima")
    if form == "zero points":
        assert np.array_equal(weights["weight.zero_point"].astype(np.float32), blocks.zero)


@pytest.mark.parametrize("form", FORMS)
def test_it_computes_with_the_same_numbers(form):
    model, _, kept = kept_layer(form)
    rows = np.random.default_rng(5).standard_normal((3, 2, WIDTH)).astype(np.float32)
    before = answers(model, rows)
    KeepIntegers(kept)(model)
    rounded = form == "a scale a column"  # its activations are of 8 bits; those of the others are, as the runtime fuses
    found = answers(model, rows) if rounded else answers(model, rows, NONE)
    assert np.abs(found - before).max() < (2e-2 if rounded else 1e-5) * np.abs(before).max()


@pytest.mark.parametrize("form", FORMS)
def test_the_runtime_reads_it_as_one_node(form, tmp_path):
    model, _, kept = kept_layer(form)
    KeepIntegers(kept)(model)
    read = runtimes_own(model, tmp_path / "own.onnx")
    assert ("MatMulNBits" in read) == (form != "a scale a column")
    assert "DequantizeLinear" not in read


def test_another_matrix_than_the_checkpoints_counts_as_missed_which_is_an_error():
    model, blocks, kept = kept_layer("4 bits")
    other = blocks.dequantise()
    other[5, 5] = np.nextafter(other[5, 5], np.float32(9))
    model.graph.initializers["weight"].const_value = ir.tensor(other, name="weight")
    done = KeepIntegers(kept)(model)
    assert done.missed == ["out: its matrix is not what the checkpoint's integers stand for"]
    assert done.fired == 0


def test_what_the_checkpoint_has_in_floating_point_stays_and_is_told():
    model = layer(WIDTH, OUT)
    assert KeepIntegers({})(model).kept == [], "the last product is another pass's"
    hidden = model.graph.outputs[0]
    after = ir.node("Relu", [hidden])
    after.outputs[0].shape, after.outputs[0].type = hidden.shape, hidden.type
    model.graph.append(after)
    model.graph.outputs[0] = after.outputs[0]
    assert KeepIntegers({})(model).kept == ["out: float32, as in the checkpoint"]


@pytest.mark.parametrize("form", FORMS)
def test_matrices_beside_each_other_are_joined_by_columns(form):
    one = blocks_of(form)
    joined = join_columns([one, one])
    assert np.array_equal(joined.dequantise(), np.concatenate([one.dequantise()] * 2, axis=1))


@pytest.mark.parametrize("form", FORMS)
def test_tensorrt_reads_the_same_levels_where_it_can_and_the_result_says_where_not(form):
    model, blocks, kept = kept_layer(form)
    done = QuantiseWeightsOnly(bits=8 if "8" in form else 4, kept=kept)(model)
    assert done.fired == 1
    weights = weights_of(model)
    if form in ("4 bits", "a scale a column"):
        assert done.kept == []
        assert np.array_equal(weights[f"weight.{blocks.levels.dtype.name}"].astype(int), blocks.levels.astype(int))
        assert np.array_equal(weights["weight.scale"].reshape(blocks.scale.shape), blocks.scale)
    else:
        assert done.kept == ["out: 8 bits with a scale a column, as TensorRT reads no blocks as its own"]
        assert weights["weight.int8"].shape == (WIDTH, OUT)
