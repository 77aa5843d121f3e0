import pytest

from attendant.errors import ExportError
from export.graph.outcome import Outcome, require_no_misses


def test_a_pass_that_met_an_unknown_form_is_an_error_with_its_reasons():
    outcome = Outcome(name="lower_x", fired=1, misses=("attention_2: its cache is no input",))
    with pytest.raises(ExportError, match="lower_x to fire 2 times; found 1: attention_2: its cache is no input"):
        require_no_misses(outcome)


def test_a_limit_of_the_target_is_no_error_and_is_told():
    outcome = Outcome(name="lower_x", fired=0, refusals=("attention: head size 4",))
    require_no_misses(outcome)
    assert outcome.to_json() == {"name": "lower_x", "fired": 0, "refusals": ["attention: head size 4"]}
