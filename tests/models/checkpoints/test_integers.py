import pytest
import torch
from safetensors.torch import load_file, save_file

from attendant.errors import ArtefactError
from models.checkpoints.importers.gpt2 import transpose_part
from models.checkpoints.integers import Integers, logical_shapes, read_integers
from models.checkpoints.store import load_checkpoint, save_checkpoint, stored_integers
from tests.models.checkpoints.folders import tiny_checkpoint

SHAPE, BLOCKS = (6, 64), 4
NAME = "blocks.0.attention.query.weight"


def matrix(bits=4, form="symmetric", shape=SHAPE, blocks=BLOCKS):
    random = torch.Generator().manual_seed(bits)
    low, high = (0, 16) if form != "symmetric" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    levels = torch.randint(low, high, shape, generator=random, dtype=torch.int8)
    scale = torch.rand(shape[0], blocks, generator=random).half().float()
    zero = torch.randint(0, 16, scale.shape, generator=random, dtype=torch.int8) if form == "zero" else None
    minimum = torch.rand(scale.shape, generator=random) if form == "minimum" else None
    return Integers(bits=bits, levels=levels, scale=scale, zero=zero, minimum=minimum)


KINDS = [(4, "symmetric"), (8, "symmetric"), (4, "zero"), (4, "minimum")]


def same(one, other):
    parts = [(getattr(one, part), getattr(other, part)) for part in ("levels", "scale", "zero", "minimum")]
    return one.bits == other.bits and all(a is b is None or torch.equal(a, b) for a, b in parts)


@pytest.mark.parametrize(("bits", "form"), KINDS)
def test_it_stands_for_what_the_formula_says(bits, form):
    one = matrix(bits, form)
    found = one.dequantise()
    for row, column in ((0, 0), (5, 63), (3, 17)):
        block = column // 16
        wanted = one.levels[row, column].float() - (0 if one.zero is None else one.zero[row, block])
        wanted = wanted * one.scale[row, block] - (0 if one.minimum is None else one.minimum[row, block])
        assert found[row, column] == wanted


@pytest.mark.parametrize(("bits", "form"), KINDS)
def test_a_file_holds_every_part_of_it(bits, form, tmp_path):
    one = matrix(bits, form)
    save_file(one.tensors("w"), tmp_path / "x.safetensors")
    tensors = load_file(tmp_path / "x.safetensors")
    assert tensors["w.levels"].nbytes == SHAPE[0] * SHAPE[1] * bits // 8
    assert same(read_integers("w", tensors, tensors.__getitem__), one)
    assert read_integers("v", tensors, tensors.__getitem__) is None


def test_rows_may_be_chosen_and_moved_and_single_columns_may_not():
    one = matrix()
    assert torch.equal(one.rearrange(lambda w: w[[4, 1]]).dequantise(), one.dequantise()[[4, 1]])
    assert same(one.take(torch.tensor([4, 1])), one.rearrange(lambda w: w[[4, 1]]))
    part = one.rearrange(lambda w: transpose_part(1, of=3)(w.mT))
    assert torch.equal(part.dequantise(), one.dequantise()[2:4])
    assert one.rearrange(lambda w: w.roll(1, 1)) is None
    assert one.rearrange(lambda w: w.mT) is None
    assert one.rearrange(lambda w: 2 * w) is None


@pytest.fixture
def folder(tmp_path):
    checkpoint = tiny_checkpoint("gpt2-tiny")
    rows, columns = checkpoint.model.get_parameter(NAME).shape
    save_checkpoint(checkpoint, tmp_path, {NAME: matrix(shape=(rows, columns), blocks=columns // 16)})
    return tmp_path


@pytest.mark.parametrize("weights", ["read", "mapped"])
def test_a_checkpoint_computes_with_the_numbers_that_it_stands_for(folder, weights):
    one = stored_integers(folder)[NAME].read()
    assert torch.equal(load_checkpoint(folder, weights).model.get_parameter(NAME), one.dequantise())


def test_of_a_checkpoint_in_floating_point_there_are_none(tmp_path):
    save_checkpoint(tiny_checkpoint("gpt2-tiny"), tmp_path)
    assert stored_integers(tmp_path) == {}


MISFITS = {
    "no scale": {".scale": None},
    "a scale of more rows": {".scale": torch.ones(3, 1)},
    "a scale of one axis": {".scale": torch.ones(1)},
    "a scale in half precision": {".scale": lambda one: one.half()},
    "levels in float": {".levels": lambda one: one.float()},
    "levels of one row": {".levels": lambda one: one[0]},
    "levels of fewer columns": {".levels": lambda one: one[:, :-1]},
    "a zero of one axis": {".zero": torch.ones(1, dtype=torch.int8)},
    "a minimum of other sizes": {".zero": lambda one: None, ".minimum": torch.ones(2)},
    "a weight beside its levels": {"": torch.ones(2)},
}


@pytest.mark.parametrize("change", MISFITS.values(), ids=MISFITS)
def test_parts_that_do_not_fit_each_other_are_refused_by_name(change, folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for part, value in change.items():
        name = f"{NAME}{part}"
        tensors[name] = value(tensors.get(name)) if callable(value) else value
    save_file({name: one.contiguous() for name, one in tensors.items() if one is not None}, path)
    with pytest.raises(ArtefactError, match=r"blocks\.0\.attention\.query\.weight"):
        load_checkpoint(folder)


def test_a_parameter_may_be_called_as_a_part_is():
    assert logical_shapes({"norm.scale": (4,)}, {"norm.scale": "F32"}) == {"norm.scale": (4,)}
