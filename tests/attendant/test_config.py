import json
from dataclasses import dataclass
from typing import Optional

import pytest

from attendant.config import (
    config_from_json,
    config_to_json,
    require,
    require_bool,
    require_choice,
    require_fraction,
    require_positive,
    require_token,
)
from attendant.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Oven:
    trays: int
    heat: float = 0.5

    def __post_init__(self) -> None:
        require_positive(self, "trays")
        require_fraction(self, "heat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stove:
    fan: bool = True
    fuel: str = "wood"
    shelf: int = 2

    def __post_init__(self) -> None:
        require_bool(self, "fan")
        require_choice(self, "fuel", ("gas", "wood"))
        require_token(self, 3, "shelf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kitchen:
    large: Oven
    small: Oven | None = None
    spare: Optional[Oven] = None  # noqa: UP045 the older spelling is another type at run time
    cooks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    minutes: tuple[int, ...]
    rests: tuple[int, ...] | None = None


def test_a_condition_that_holds_is_silent_and_one_that_does_not_says_what_and_what_to_do():
    require(True, "a cold oven", "hot")
    with pytest.raises(ConfigError) as caught:
        require(False, "a cold oven", "hot", "wait")
    assert (caught.value.expected, caught.value.found, caught.value.remedy) == ("a cold oven", "hot", "wait")


@pytest.mark.parametrize("trays", [1, 10**9])
def test_a_positive_integer_is_taken(trays):
    assert Oven(trays=trays).trays == trays


@pytest.mark.parametrize("trays", [0, -1, True, 1.0, "1", None], ids=repr)
def test_what_is_no_positive_integer_is_refused(trays):
    with pytest.raises(ConfigError, match=f"expected trays to be a positive integer; found {trays!r};"):
        Oven(trays=trays)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("fan", 1, "fan to be true or false"),
        ("fan", None, "fan to be true or false"),
        ("fuel", "coal", r"fuel, one of \['gas', 'wood'\]"),
        ("shelf", 3, "shelf inside the vocabulary of 3"),
        ("shelf", -1, "shelf inside the vocabulary of 3"),
        ("shelf", True, "shelf inside the vocabulary of 3"),
    ],
)
def test_a_flag_a_choice_or_a_token_outside_is_refused_and_one_inside_taken(name, value, expected):
    assert Stove().shelf == 2
    with pytest.raises(ConfigError, match=expected):
        Stove(**{name: value})


@pytest.mark.parametrize("heat", [0, 0.0, 0.999])
def test_a_fraction_from_zero_to_below_one_is_taken(heat):
    assert Oven(trays=1, heat=heat).heat == heat


@pytest.mark.parametrize("heat", [-1e-9, 1, 1.0, float("nan"), float("inf"), "0.5", None, True, False], ids=repr)
def test_what_is_no_fraction_is_refused(heat):
    with pytest.raises(ConfigError, match=rf"expected heat in \[0, 1\); found {heat!r};"):
        Oven(trays=1, heat=heat)


def test_a_configuration_survives_json():
    oven = Oven(trays=2, heat=0.25)
    assert config_to_json(oven) == {"trays": 2, "heat": 0.25}
    assert config_from_json(Oven, config_to_json(oven)) == oven


@pytest.mark.parametrize("rests", [None, (), (5, 5)], ids=str)
def test_a_tuple_survives_json(rests):
    recipe = Recipe(minutes=(10, 20), rests=rests)
    assert config_from_json(Recipe, json.loads(json.dumps(config_to_json(recipe)))) == recipe
    assert config_to_json(recipe)["minutes"] == [10, 20]


@pytest.mark.parametrize("small", [None, Oven(trays=1)], ids=["without", "with"])
@pytest.mark.parametrize("field", ["small", "spare"])
def test_a_configuration_inside_a_configuration_survives_json(field, small):
    kitchen = Kitchen(**{"large": Oven(trays=2, heat=0.25), "cooks": 3, field: small})
    written = json.loads(json.dumps(config_to_json(kitchen)))
    assert written["large"] == {"trays": 2, "heat": 0.25}
    assert config_from_json(Kitchen, written) == kitchen


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"large": None}, "an object with the fields of Oven"),
        ({"large": {"trays": 1}, "small": 3}, "an object with the fields of Oven"),
        ({"large": {"trays": 1, "z": 1}}, "only fields of Oven: ['heat', 'trays']"),
        ({"large": {"trays": 1}, "spare": {}}, "every field of Oven"),
        ({"large": {"trays": 0}}, "trays to be a positive integer"),
    ],
    ids=["none where one is needed", "a number", "an unknown field", "a missing field", "a bad value"],
)
def test_values_that_make_no_inner_configuration_are_refused(values, expected):
    with pytest.raises(ConfigError) as caught:
        config_from_json(Kitchen, values)
    assert caught.value.expected == expected


def test_a_field_that_is_left_out_takes_its_default():
    assert config_from_json(Oven, {"trays": 2}) == Oven(trays=2, heat=0.5)


@pytest.mark.parametrize(
    ("values", "expected", "found", "remedy"),
    [
        ({"trays": 1, "z": 1, "a": 1}, "only fields of Oven: ['heat', 'trays']", "['a', 'z']", "remove the unknown"),
        ({"heat": 0.1}, "every field of Oven", "'trays'", "add the missing fields"),
        ({"trays": 0}, "trays to be a positive integer", "0", "correct the configuration"),
    ],
    ids=["unknown fields", "a missing field", "a bad value"],
)
def test_values_that_make_no_configuration_are_refused(values, expected, found, remedy):
    with pytest.raises(ConfigError) as caught:
        config_from_json(Oven, values)
    assert caught.value.expected == expected
    assert found in caught.value.found
    assert remedy in caught.value.remedy
