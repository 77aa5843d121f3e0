import pytest

from export.axes import Axis, axes_of
from models.errors import ConfigError
from models.presets import PRESETS
from models.tasks import decoder_signature, encoder_signature


@pytest.mark.parametrize("sizes", [(0, 1, 2), (2, 1, 2), (1, 3, 2)])
def test_sizes_out_of_order_are_refused(sizes):
    smallest, usual, largest = sizes
    with pytest.raises(ConfigError, match="smallest ≤ usual ≤ largest"):
        Axis(smallest=smallest, usual=usual, largest=largest)


def test_every_symbol_of_a_translator_has_its_sizes():
    config = PRESETS["transformer-tiny"][1]
    symbols = {*encoder_signature(config).symbols(), *decoder_signature(config).symbols()}
    assert symbols == axes_of(config).keys()


def test_the_attended_axis_ends_at_the_capacity():
    config = PRESETS["transformer-tiny"][1]
    assert axes_of(config)["attended"].largest == config.max_target_length
