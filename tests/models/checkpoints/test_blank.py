import pytest
import torch
from torch import nn

from models.checkpoints.blank import blank, fill
from models.presets import PRESETS
from models.registry import family_named
from tests.models.checkpoints.folders import TINY


def built(preset):
    return family_named(PRESETS[preset].family).build(PRESETS[preset].config)


@pytest.mark.parametrize("preset", TINY)
def test_a_blank_module_becomes_the_module_whose_tensors_it_is_given(preset):
    torch.manual_seed(0)
    whole = built(preset)
    empty = blank(lambda: built(preset))
    fill(empty, whole.state_dict().items())
    found, wanted = ([*one.named_parameters(), *one.named_buffers()] for one in (empty, whole))
    assert [name for name, _ in found] == [name for name, _ in wanted]
    assert all(torch.equal(one, other) for (_, one), (_, other) in zip(found, wanted, strict=True))


@pytest.mark.parametrize("preset", TINY)
def test_no_random_number_is_drawn(preset):
    before = torch.get_rng_state()
    blank(lambda: built(preset))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_weight_matrix_takes_no_memory():
    assert blank(lambda: nn.Linear(4, 5)).weight.is_meta
    assert blank(lambda: nn.Embedding(4, 5)).weight.is_meta
    assert not nn.Linear(4, 5).weight.is_meta


def test_a_tensor_is_taken_as_it_is():
    module, weight = blank(lambda: nn.Linear(4, 5, bias=False)), torch.randn(5, 4, dtype=torch.bfloat16)
    fill(module, [("weight", weight)])
    assert module.weight.data_ptr() == weight.data_ptr()
    assert module.weight.dtype == torch.bfloat16


def test_a_buffer_that_nobody_computes_and_nobody_stores_is_no_model():
    class Forgetful(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.empty(3), persistent=False)

    with pytest.raises(AssertionError, match="table"):
        fill(blank(Forgetful), [])
