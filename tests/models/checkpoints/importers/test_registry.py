import contextlib
import json

import pytest
import torch
import transformers

from attendant.errors import ConfigError, UnknownNameError
from models.checkpoints.importers.architecture import ReferenceModel
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.registry import architecture_of, architectures
from models.presets import PRESETS
from tests.models.agreement import SEEN, difference
from tests.models.checkpoints.importers import (
    captioners,
    swins,
    test_bert,
    test_llama,
    test_marian,
    test_t5,
    test_timesformer,
    test_vit,
)
from tests.models.checkpoints.importers.published import PUBLISHED
from tests.models.checkpoints.importers.published_captioners import PUBLISHED_CAPTIONERS
from tests.models.checkpoints.importers.saved import VOCABULARY, causal, translating

KINDS = {name: getattr(transformers, one.classes[0]) for name, one in architectures("transformers").items()}
GPT2_SIZES = {"vocab_size": VOCABULARY, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 40}
SIZES = {
    "gpt2": GPT2_SIZES,
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), test_llama.SIZES),
    **dict.fromkeys(("marian", "bart"), test_marian.SIZES),
    "t5": test_t5.SIZES,
    "bert": test_bert.SIZES,
    **dict.fromkeys(("vit", "deit"), test_vit.SIZES),
    "timesformer": test_timesformer.SIZES,
    **dict.fromkeys(("swin", "swinv2"), swins.SIZES),
    **{f"vision-encoder-decoder with {kind}": sizes for kind, sizes in captioners.SIZES.items()},
}
NEEDED = {
    "t5": {"decoder_start_token_id": 0},
    **{f"vision-encoder-decoder with {kind}": values for kind, values in captioners.DEFAULTS.items()},
}
every_case = pytest.mark.parametrize("case", SIZES)
RUNS = {
    "encoder": test_bert.reading,
    "decoder": causal,
    **dict.fromkeys(("vit", "deit"), test_vit.seeing),
    "timesformer": test_timesformer.watching,
    **dict.fromkeys(("swin", "swin_v2"), swins.seeing),
    "vision_seq2seq": captioners.looking,
}


POOLER = frozenset({"pooler.dense.weight"})  # as published files have it


def config_of(values):
    """Our configuration, or nothing where it is refused."""
    fields = Fields(values)
    config = architecture_of(values).config_from(ReferenceModel(fields=fields, generation=values, names=POOLER))
    fields.refuse_rest()
    return config


@pytest.mark.parametrize(("name", "values"), [*PUBLISHED.items(), *PUBLISHED_CAPTIONERS.items()])
def test_the_configuration_of_a_published_checkpoint_is_that_of_its_preset(name, values):
    assert config_of(values) == PRESETS[name].config


def test_every_architecture_is_tried():
    assert {case.split()[0] for case in SIZES} == set(architectures("transformers"))


def default_values(case):
    model_type = case.split()[0]
    values = KINDS[model_type].config_class(**NEEDED.get(case, {})).to_dict()
    return {**json.loads(json.dumps(values)), "architectures": list(architectures("transformers")[model_type].classes)}


def without_one(values):
    """The name of each field, those of configurations within among them, and the configuration without it."""
    for name, value in values.items():
        if name == "model_type":
            continue
        yield name, {key: one for key, one in values.items() if key != name}
        if isinstance(value, dict) and "model_type" in value:
            yield from ((inner, {**values, name: part}) for inner, part in without_one(value))


@every_case
def test_an_absent_field_has_the_value_that_transformers_gives_it(case):
    values = default_values(case)
    whole = config_of(values)
    for name, left in without_one(values):
        try:
            assert config_of(left) == whole, name
        except ConfigError as error:  # asked for, and never guessed
            assert name in error.expected


def changed(value):
    """Other values of a field's type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * 2 + 1, value + 1]
    if isinstance(value, float):
        return [value * 3 + 0.2]
    if isinstance(value, str):
        return ["relu", "gelu", "absolute", "gated-silu"]
    if isinstance(value, list) and all(isinstance(one, int) for one in value):
        return [[one + 1 for one in value], [one * 2 for one in value]]
    if isinstance(value, dict) and "model_type" in value:
        return [{**value, name: other} for name, one in value.items() for other in changed(one)]
    if isinstance(value, dict):
        return [{**value, "rope_theta": 30.0}]
    return [True, 7, "x"] if value is None else []


def outputs(model_type, values, weights):
    """What their model of this configuration makes of some inputs, or nothing where there is no such model."""
    kind = KINDS[model_type]
    family = architectures("transformers")[model_type].family
    run = RUNS.get(family, translating)()
    try:
        torch.manual_seed(0)
        model = kind(kind.config_class(**values)).eval()
        model.load_state_dict(weights, strict=False)
        with torch.no_grad():
            return run[1](model.double())
    except Exception:  # whatever a meaningless value leads to
        return None


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in ("bert", "llama") else pytest.mark.slow) for case in SIZES]
)
def test_a_field_that_changes_what_transformers_computes_changes_our_configuration_or_is_refused(case):
    torch.manual_seed(0)
    model_type = case.split()[0]
    theirs = KINDS[model_type](KINDS[model_type].config_class(**SIZES[case]))
    for parameter in theirs.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape)
    values, weights = json.loads(json.dumps(theirs.config.to_dict())), theirs.state_dict()
    base, wanted = config_of(values), outputs(model_type, values, weights)
    noticed = 0
    for name, value in values.items():
        for other in changed(value):
            found = outputs(model_type, {**values, name: other}, weights)
            if found is None or (found.shape == wanted.shape and difference(found, wanted) < SEEN):
                continue
            noticed += 1
            with contextlib.suppress(ConfigError, UnknownNameError):
                assert config_of({**values, name: other}) != base, (name, other)
    assert noticed >= 5


@pytest.mark.parametrize("model_type", ["opt", None, 5, ["gpt2"]], ids=str)
def test_an_unknown_architecture_is_refused_with_those_that_are_supported(model_type):
    with pytest.raises(UnknownNameError) as caught:
        architecture_of({"model_type": model_type})
    assert all(name in caught.value.expected for name in architectures("transformers"))
    assert caught.value.found == repr(model_type)


@pytest.mark.parametrize("classes", [None, [], ["LlamaForCausalLM"], ["Other", "LlamaModel"]], ids=str)
def test_a_model_of_a_known_class_or_of_none_is_taken(classes):
    assert architecture_of({"model_type": "llama", "architectures": classes}) is architectures("transformers")["llama"]


def test_another_model_of_the_architecture_is_refused():
    with pytest.raises(UnknownNameError, match="LlamaForSequenceClassification"):
        architecture_of({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]})


@pytest.mark.parametrize("classes", [[["GPT2LMHeadModel"]], [{}], 3.5, {"GPT2LMHeadModel": 1}, "GPT2LMHeadModel"])
def test_names_of_architectures_that_are_no_list_of_names_are_refused(classes):
    with pytest.raises(UnknownNameError, match="one of the architectures"):
        architecture_of({"model_type": "gpt2", "architectures": classes})


@pytest.mark.parametrize(("model_type", "experts"), [("mixtral", True), ("qwen2_moe", True), ("gemma2", False)])
def test_an_architecture_that_is_not_supported_leads_to_a_module_of_ones_own(model_type, experts):
    with pytest.raises(UnknownNameError, match=r"your-own-model\.md") as caught:
        architecture_of({"model_type": model_type})
    assert ("a mixture of experts" in caught.value.found) == experts
