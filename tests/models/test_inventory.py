"""What is stored for `models list` against what there is."""

import pytest

from models.inventory import count_checkpoints, count_families, count_preset, read_inventory
from models.presets import PRESETS
from models.registry import FAMILIES

ONE_A_FAMILY = {preset.family: name for name, preset in PRESETS.items() if "tiny" in name}
PUBLISHED = ("gpt2", "bert-base-uncased", "t5-small", "vit-b-16", "swin-t", "swin-v2-t")
STORED = {row["name"]: row for row in read_inventory()["presets"]}


def test_the_stored_checkpoints_and_families_are_those_that_there_are():
    stored = read_inventory()
    assert stored["checkpoints"] == count_checkpoints()
    assert stored["families"] == count_families()


def test_the_stored_presets_are_those_that_there_are():
    described = [(row["name"], row["family"], row["task"], row["compared with"]) for row in read_inventory()["presets"]]
    assert described == [
        (name, preset.family, FAMILIES[preset.family].task.name, preset.compared_with)
        for name, preset in PRESETS.items()
    ]


@pytest.mark.parametrize("name", [*ONE_A_FAMILY.values(), *PUBLISHED])
def test_a_sample_of_the_stored_presets_is_as_large_as_stored(name):
    assert count_preset(name, PRESETS[name]) == STORED[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_as_large_as_stored(name):
    assert count_preset(name, PRESETS[name]) == STORED[name]
