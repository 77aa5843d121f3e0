import dataclasses

import pytest
from torch import nn

from attendant.errors import UnknownNameError
from models import families
from models.presets import PRESETS
from models.registry import FAMILIES, family_named, find_families

ONE_MORE = """
from dataclasses import dataclass

from torch import nn

from models.families.family import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    classes: int = 3
    pixel_shape: tuple[int, ...] = (1, 2, 2)


class OneMore(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head = nn.Linear(4, config.classes)

    def forward(self, pixels):
        return self.head(pixels.flatten(1))


FAMILY = Family(name="one_more", graphs="classify", config=Sizes, build=OneMore)
"""


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


def test_a_file_in_the_folder_is_a_family_and_has_its_tasks_graphs(tmp_path, monkeypatch):
    (tmp_path / "one_more_family.py").write_text(ONE_MORE)
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    found = find_families()
    family = found["one_more"]
    model = family.build(family.config())
    (graph,) = family.graph_builder.build(model)
    assert found.keys() == {*FAMILIES, "one_more"}
    assert family.task.name == "classify"
    assert isinstance(graph.module, nn.Module)
    assert graph.signature.outputs[0].axes == ("batch", 3)
