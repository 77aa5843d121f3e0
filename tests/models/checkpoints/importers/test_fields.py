import pytest

from attendant.errors import ConfigError
from models.checkpoints.importers.fields import Fields


def refusal(ask):
    with pytest.raises(ConfigError) as caught:
        ask()
    return caught.value


def test_an_unknown_field_is_refused_by_name_and_value():
    error = refusal(Fields({"n_embd": 8, "logit_scale": 2.0, "router": "top2"}).refuse_rest)
    assert error.found == "n_embd: 8, logit_scale: 2.0, router: 'top2'"
    assert "take them out of config.json" in error.remedy


def test_a_field_that_was_asked_for_is_understood():
    fields = Fields({"a": 1, "b": 2.0, "c": True, "d": "x", "e": [1], "f": "only", "g": 5})
    fields.size("a"), fields.number("b", 1), fields.flag("c", False), fields.choice("d", {"x": 1}, "x")
    fields.get("e"), fields.only("f", "only"), fields.without_effect("g")
    fields.refuse_rest()


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}], ids=repr)
def test_an_unknown_switch_that_is_off_changes_nothing(value):
    Fields({"use_novelty": value}).refuse_rest()


@pytest.mark.parametrize(
    "name",
    [
        "_name_or_path",
        "transformers_version",
        "torch_dtype",
        "resid_pdrop",
        "attention_dropout",
        "eos_token_id",
        "num_beams",
    ],
)
def test_provenance_training_and_decoding_do_not_change_the_model(name):
    Fields({name: 5}).refuse_rest()


def test_null_counts_as_absent_where_a_kind_of_value_is_asked_for():
    fields = Fields({"size": None, "number": None, "flag": None, "word": None, "fixed": None})
    assert fields.size("size", 3) == 3
    assert fields.number("number", 0.5) == 0.5
    assert fields.flag("flag", True) is True
    assert fields.choice("word", {"a": 1, "b": 2}, "b") == 2
    fields.only("fixed", "this")
    assert fields.get("size", 3) is None
    assert (fields.is_null("size"), fields.is_null("absent")) == (True, False)


@pytest.mark.parametrize("value", [0, -1, 1.0, "8", True, [8]], ids=repr)
def test_a_size_that_is_none_is_refused(value):
    assert refusal(lambda: Fields({"n_embd": value}).size("n_embd")).found == repr(value)


def test_a_size_that_nothing_gives_is_refused():
    assert (
        refusal(lambda: Fields({}).size("n_embd")).expected
        == "n_embd in config.json to be a positive integer of at most 16777216"
    )


@pytest.mark.parametrize("value", ["1e-5", True, [1]], ids=repr)
def test_a_number_that_is_none_is_refused(value):
    assert refusal(lambda: Fields({"eps": value}).number("eps", 1.0)).found == repr(value)


@pytest.mark.parametrize("value", [1, "true"], ids=repr)
def test_a_flag_that_is_none_is_refused(value):
    assert refusal(lambda: Fields({"tied": value}).flag("tied", True)).found == repr(value)


@pytest.mark.parametrize("value", ["c", 5, ["a"]], ids=repr)
def test_a_word_that_is_not_supported_is_refused_with_those_that_are(value):
    error = refusal(lambda: Fields({"act": value}).choice("act", {"a": 1, "b": 2}, "a"))
    assert (error.expected, error.found) == ("act, one of ['a', 'b']", repr(value))


def test_a_switch_in_the_other_position_is_refused():
    error = refusal(lambda: Fields({"mlp_bias": True}).only("mlp_bias", False))
    assert (error.expected, error.found) == ("mlp_bias: False", "True")


def test_a_configuration_within_another_is_refused_with_its_place_if_nobody_knows_a_field():
    fields = Fields({"text": {"layers": 2, "inner": {"gate": "top2"}}})
    text = fields.part("text")
    assert (text.size("layers"), text.part("inner").get("absent")) == (2, None)
    assert refusal(fields.refuse_rest).found == "text.inner.gate: 'top2'"
    assert text.size("layers") == 2


@pytest.mark.parametrize("value", [None, 3, "gpt2", ["gpt2"]], ids=repr)
def test_what_is_no_configuration_within_another_is_refused(value):
    error = refusal(lambda: Fields({"text": value}).part("text"))
    assert (error.expected, error.found) == ("text in config.json to be an object", repr(value))


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda part: part.size("a"), "text.a in config.json to be a positive integer of at most 16777216"),
        (lambda part: part.number("a", 1), "text.a in config.json to be a number"),
        (lambda part: part.flag("a", True), "text.a in config.json to be true or false"),
        (lambda part: part.choice("a", {"x": 1}, "x"), "text.a, one of ['x']"),
        (lambda part: part.only("a", 3), "text.a: 3"),
    ],
)
def test_a_field_within_another_is_named_with_its_place(ask, expected):
    assert refusal(lambda: ask(Fields({"text": {"a": "no"}}).part("text"))).expected == expected


@pytest.mark.parametrize(
    "values",
    [
        {"id2label": ["a", "b"]},
        {"label2id": 5},
        {"eos_token_id": {"a": 1}},
        {"bos_token_id": "x"},
        {"pad_token_id": [1.5]},
        {"num_labels": "x"},
    ],
    ids=str,
)
def test_what_every_model_may_have_is_refused_where_it_is_malformed(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        Fields(values).refuse_rest()


@pytest.mark.parametrize("values", [{"eos_token_id": [1, 2]}, {"eos_token_id": None}, {"id2label": None}], ids=str)
def test_and_taken_where_it_is_as_the_other_library_writes_it(values):
    Fields(values).refuse_rest()
