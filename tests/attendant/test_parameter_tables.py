"""The tables of docs/reference/sampling-parameters.md name every parameter, with its tensor, range and default."""

import re

from attendant.parameter_tables import parameter_tables
from attendant.sampling_params import PARAMS
from attendant.sampling_tensors import SPECS
from tests.conftest import ROOT

PAGE = (ROOT / "docs/reference/sampling-parameters.md").read_text()


def test_every_parameter_and_every_tensor_with_its_type_is_on_the_page():
    assert [name for name in PARAMS if f"\n| `{name}` | " not in PAGE] == []
    named = dict(re.findall(r"`(\w+)` (bool|u?int\d+|float32|string)\b", parameter_tables()))
    assert named == {name: spec.dtype for name, spec in SPECS.items() if name != "stream"}


def test_a_range_and_a_default_are_said_of_every_number():
    rows = {line.split("`")[1]: line.split(" | ") for line in parameter_tables().splitlines() if line.startswith("| `")}
    assert rows["top_p"][2:4] == ["above 0, to 1", "1"]
    assert rows["seed"][2:4] == ["0 to 2⁶⁴ − 1", "drawn"]
    assert rows["presence_penalty"][2:4] == ["−100 to 100", "0"]
    assert rows["early_stopping"][2:4] == ["no (0), yes (1), never (2)", "no"]
    assert rows["n"][4] == "`n`" and rows["top_k"][4] == ""
