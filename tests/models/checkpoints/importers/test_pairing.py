import re

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from attendant.errors import ArtefactError
from models.checkpoints.blank import blank
from models.checkpoints.importers.architecture import Architecture, origin, same
from models.checkpoints.importers.pairing import canonical_names, fill_from, pair
from models.checkpoints.importers.reader import SINGLE_NAME, opened_tensors

TABLE = {
    "0": origin("first", change=lambda tensor: tensor.mT if tensor.ndim == 2 else tensor),
    "1": origin("second", "copy", optional=True),
}
THEIRS = {"base.first.weight": (2, 3), "base.first.bias": (3,), "base.second.weight": (2, 3), "base.second.bias": (2,)}


def ours():
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))


def architecture(**settings):
    return Architecture(
        model_type="x",
        classes=("X",),
        family="decoder",
        config_from=lambda reference: None,
        origins=lambda config: same({}),
        prefix="base.",
        spellings=((r"gamma$", "weight"),),
        ignored=(r".*\.mask",),
        **settings,
    )


def paired(folder, changes=(), drop=()):
    shapes = {name: shape for name, shape in {**THEIRS, **dict(changes)}.items() if name not in drop}
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: shape if isinstance(shape, torch.Tensor) else torch.randn(shape, generator=generator)
        for name, shape in shapes.items()
    }
    save_file(tensors, folder / SINGLE_NAME)
    module, steps = blank(ours), []
    with opened_tensors(folder) as opened:
        names = canonical_names(architecture(), opened)
        pairing = pair(module, TABLE, architecture(), names)
        fill_from(module, pairing, opened, steps.append)
    return module, tensors, pairing, steps


def refusal(*arguments, **options):
    with pytest.raises(ArtefactError) as caught:
        paired(*arguments, **options)
    return caught.value


def test_every_tensor_comes_to_its_place_changed_as_the_table_says(tmp_path):
    module, theirs, pairing, steps = paired(tmp_path)
    assert torch.equal(module[0].weight, theirs["base.first.weight"].T)
    assert torch.equal(module[0].bias, theirs["base.first.bias"])
    assert torch.equal(module[1].weight, theirs["base.second.weight"])
    assert steps == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert pairing.ignored == ()


def test_a_missing_tensor_is_refused_by_name(tmp_path):
    assert refusal(tmp_path, drop=["base.first.bias"]).found == "no first.bias"


def test_an_unexpected_tensor_is_refused_by_its_name_in_the_file(tmp_path):
    error = refusal(tmp_path, {"base.third.weight": (1,), "lora_a": (1,)})
    assert error.found == "base.third.weight, lora_a"


def test_many_unexpected_tensors_are_counted(tmp_path):
    assert refusal(tmp_path, {f"z{number}": (1,) for number in range(9)}).found == "z0, z1, z2, z3, z4 and 4 more"


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (6,), (2, 3, 1)], ids=str)
def test_a_tensor_of_another_shape_is_refused_with_both(shape, tmp_path):
    error = refusal(tmp_path, {"base.first.weight": shape})
    assert error.expected == "base.first.weight of a shape that becomes (3, 2)"
    assert error.found == f"{shape} in the file"


def test_a_mask_is_left_out_and_said_so(tmp_path):
    assert paired(tmp_path, {"base.first.mask": (9,)})[2].ignored == ("base.first.mask",)


def test_an_optional_tensor_that_is_missing_is_zero(tmp_path):
    module = paired(tmp_path, drop=["base.second.bias"])[0]
    assert torch.equal(module[1].bias, torch.zeros(2))


def test_an_older_spelling_is_understood(tmp_path):
    module, theirs, *_ = paired(tmp_path, {"base.second.gamma": (2, 3)}, drop=["base.second.weight"])
    assert torch.equal(module[1].weight, theirs["base.second.gamma"])


def test_a_tensor_in_two_spellings_is_refused(tmp_path):
    assert refusal(tmp_path, {"base.second.gamma": (2, 3)}).found == "base.second.gamma and base.second.weight"


def test_a_copy_under_another_name_must_hold_the_same_values(tmp_path):
    same_values = torch.ones(2, 3)
    changes = {"base.second.weight": same_values, "copy.weight": same_values.clone()}
    assert torch.equal(paired(tmp_path, changes)[0][1].weight, same_values)
    changes["copy.weight"][1, 1] = 1.5
    assert refusal(tmp_path, changes).expected.startswith("the same values in base.second.weight and copy.weight")


def test_a_part_of_a_tensor_does_not_keep_the_whole_in_memory(tmp_path):
    save_file({"all": torch.randn(9, 4)}, tmp_path / SINGLE_NAME)
    module, table = blank(lambda: nn.Linear(4, 3, bias=False)), {"weight": origin("all", change=lambda all_: all_[:3])}
    with opened_tensors(tmp_path) as opened:
        pairing = pair(module, table, architecture(), canonical_names(architecture(), opened))
        fill_from(module, pairing, opened, lambda name: None)
    assert module.weight.untyped_storage().nbytes() == 3 * 4 * 4


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_the_checkpoints_fault(value, tmp_path):
    name, shape = next(iter(THEIRS.items()))
    with pytest.raises(ArtefactError, match=f"finite numbers in {re.escape(name)} of the checkpoint"):
        paired(tmp_path, changes={name: torch.full(shape, value)})
