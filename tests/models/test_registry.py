import dataclasses

import pytest

from attendant.errors import UnknownNameError
from models.presets import PRESETS
from models.registry import FAMILIES, family_named


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_found_under_its_own_name(name):
    assert family_named(name).name == name


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_tiny_presets_and_builds_them(name):
    presets = [preset for key, preset in PRESETS.items() if preset.family == name and key.endswith("-tiny")]
    family = family_named(name)
    assert presets
    assert all(type(preset.config) is family.config for preset in presets)
    assert all(family.build(preset.config).config is preset.config for preset in presets)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_configuration_is_frozen_slotted_and_given_by_keyword(name):
    kind = family_named(name).config
    assert kind.__dataclass_params__.frozen
    assert "__dict__" not in dir(kind)
    assert all(field.kw_only for field in dataclasses.fields(kind))


def test_a_family_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(UnknownNameError) as caught:
        family_named("vitt")
    assert caught.value.expected == f"a family, one of {sorted(FAMILIES)}"
    assert caught.value.found == "'vitt'"
