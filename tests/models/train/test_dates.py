import pytest

from models.checkpoints.resolve import checkpoint_named
from models.train.date_data import held_out
from models.train.date_task import exact_match


@pytest.mark.planted
@pytest.mark.parametrize("part", ["encoder.0.attention.value.weight", "decoder.1.cross_attention.query.weight"])
def test_a_zeroed_attention_matrix_lowers_the_exact_match(part: str) -> None:
    model = checkpoint_named("dates-transformer").model
    model.get_parameter(part).zero_()
    assert exact_match(model, held_out(100)).share < 0.9
