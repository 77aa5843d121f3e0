"""docs/guides/decoding.md says of every option what is true of it."""

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from attendant.errors import InputError
from attendant.tensor_names import TEXT_OPTIONS
from clients.decoding import Decoding
from clients.decoding_tensors import tensors_of
from serving.engine.options import DecodingOptions

GUIDE = (Path(__file__).parents[2] / "docs/guides/decoding.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in GUIDE.splitlines()
    if re.match(r"\| (`\w+` )?\| (`\w+` \w|the request)", line)
]
BY_OPTION = {row[0].strip("`"): row[1:] for row in ROWS if len(row) == 5}
SPECS = {spec.name: spec for spec in TEXT_OPTIONS}


def bounds(text):
    """The numbers of a range that is written as two of them."""
    two = re.fullmatch(r"(?:above )?([−\d]+)(?:, to| to| or) (\d+)(, and to the slots)?", text)
    return [float(number.replace("−", "-")) for number in two.groups()[:2]] if two else None


def tensors(cells):
    return dict(re.findall(r"`(\w+)` (\w+)", cells[0]))


def test_every_option_and_every_tensor_with_its_type_is_in_the_guide():
    assert BY_OPTION.keys() - {""} == {option.name for option in fields(Decoding)}
    named = {name: dtype for cells in BY_OPTION.values() for name, dtype in tensors(cells).items()}
    assert named == {name: spec.dtype for name, spec in SPECS.items()}


@pytest.mark.parametrize("name", [option.name for option in fields(Decoding) if option.name != "explain"])
def test_an_option_is_sent_as_the_tensors_that_the_guide_names(name):
    values = {"stop": ("a",), "stop_ids": (1,), "logit_bias": {1: 1.0}, "early_stopping": "yes"}
    flags = {option.name for option in fields(Decoding) if option.default is False}
    value = values.get(name, True if name in flags else "a" if name in ("json_schema", "regex") else 1)
    sent = tensors_of(Decoding(**{name: value})).keys() - {"stream"}
    assert sent == tensors(BY_OPTION[name]).keys()


@pytest.mark.parametrize(
    "name", [option.name for option in fields(DecodingOptions) if BY_OPTION.get(option.name, [""] * 3)[2][:1].isdigit()]
)
def test_the_guides_default_is_the_servers(name):
    assert float(BY_OPTION[name][2]) == getattr(DecodingOptions(), name)


def test_an_option_whose_default_is_no_number_is_silent_by_default():
    defaults = {option.name: option.default for option in fields(DecodingOptions) if option.default is not MISSING}
    silent = [name for name, cells in BY_OPTION.items() if cells[2] in ("no", "none", "drawn", "as many")]
    assert [name for name in silent if defaults.get(name) not in (None, False, ())] == []
    assert len(silent) > 10


@pytest.mark.parametrize("name", [name for name, cells in BY_OPTION.items() if bounds(cells[1])])
def test_the_guides_range_is_the_servers(name):
    low, high = bounds(BY_OPTION[name][1])
    beside = {"top_logprobs": {"logprobs": True}, "candidates": {"temperature": 1.0}}.get(name, {})
    kind = int if SPECS[next(iter(tensors(BY_OPTION[name])))].dtype == "int32" else float
    least = [] if "above" in BY_OPTION[name][1] else [low]
    for value in (*least, high):
        DecodingOptions(**beside, **{name: kind(value)})
    for value in (low if not least else low - 1, high + 1):
        with pytest.raises(InputError, match=name):
            DecodingOptions(**beside, **{name: kind(value)})


def test_the_ranges_of_most_options_are_looked_at():
    assert sum(bounds(cells[1]) is not None for cells in BY_OPTION.values()) >= 13
