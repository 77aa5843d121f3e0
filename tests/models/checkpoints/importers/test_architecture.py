import pytest

from attendant.errors import ConfigError
from models.checkpoints.importers.architecture import LONGEST, ReferenceModel, origin, origin_of, same
from models.checkpoints.importers.fields import Fields

TABLE = {**same({"blocks.{}.norm": "h.{}.ln", "norm": "ln_f"}), "head.weight": origin("wte.weight", "lm_head.weight")}


def reference(asked=None, generation=(), **values):
    return ReferenceModel(fields=Fields(values), generation=dict(generation), asked_length=asked)


def test_a_parameter_is_found_by_its_module_and_keeps_its_last_word():
    assert origin_of("blocks.11.norm.weight", TABLE).names == ("h.11.ln.weight",)
    assert origin_of("blocks.11.norm.bias", TABLE).names == ("h.11.ln.bias",)
    assert origin_of("norm.weight", TABLE).names == ("ln_f.weight",)


def test_a_parameter_may_be_named_in_full_and_have_several_names():
    assert origin_of("head.weight", TABLE).names == ("wte.weight", "lm_head.weight")


def test_a_module_may_be_named_with_its_number_where_theirs_is_another():
    table = {**TABLE, **same({"blocks.1.norm": "h.2.before"})}
    assert origin_of("blocks.1.norm.weight", table).names == ("h.2.before.weight",)
    assert origin_of("blocks.0.norm.weight", table).names == ("h.0.ln.weight",)


def test_a_parameter_that_the_table_lacks_is_a_mistake_in_the_table():
    with pytest.raises(KeyError):
        origin_of("head.bias", TABLE)


def test_the_length_is_the_models_but_not_above_the_longest_for_which_a_cache_is_kept():
    short, long = reference(), reference()
    assert (short.length(1024), short.notes) == (1024, [])
    assert long.length(131072) == LONGEST
    assert long.notes == [f"max_length is {LONGEST}, not the model's 131072: change it with --max-length"]


def test_the_length_is_what_is_asked_for():
    asked = reference(asked=8192)
    assert (asked.length(131072), asked.notes) == (8192, [])


@pytest.mark.parametrize("asked", [0, -5, 1025])
def test_a_length_that_the_model_was_not_made_for_is_refused(asked):
    with pytest.raises(ConfigError, match="a --max-length from 1 to 1024"):
        reference(asked=asked).length(1024)


def test_a_token_of_the_generation_comes_before_the_models():
    assert reference(generation={"eos_token_id": 7}, eos_token_id=2).token("eos_token_id") == 7
    assert reference(eos_token_id=2).token("eos_token_id") == 2
    assert reference(eos_token_id=[2]).token("eos_token_id") == 2
    assert reference(eos_token_id=0).token("eos_token_id") == 0


@pytest.mark.parametrize("value", [None, [1, 2], "2", []], ids=repr)
def test_a_token_that_is_none_or_several_is_refused(value):
    with pytest.raises(ConfigError, match="one token id as eos_token_id"):
        reference(eos_token_id=value).token("eos_token_id")


@pytest.mark.parametrize("labels", [3, 0.5, "a", ["a"]])
def test_labels_that_are_no_object_are_refused(labels):
    reference = ReferenceModel(fields=Fields({"id2label": labels}), values={}, generation={}, asked_length=None)
    with pytest.raises(ConfigError, match="id2label"):
        reference.classes()
