"""The language models against transformers' with the same weights, and proof that the comparisons are not blind."""

import dataclasses

import pytest
import torch

from models.families import decoder
from models.layers.rope import RopeConfig
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter
from tests.models.families.language_models import KINDS, language_model, random_tokens, stranger_from_ours
from tests.models.float64_oracles import oracle_precision

every_kind = pytest.mark.parametrize("kind", KINDS)


def strangers_logits(kind, model):
    stranger = stranger_from_ours(kind, model)  # its rotary frequencies are rounded to float32, as ours are
    with oracle_precision(model.embedding.weight.dtype):
        return stranger(random_tokens(), use_cache=False).logits


@agrees_in_both_precisions
@every_kind
def test_it_equals_transformers_with_the_same_weights(kind, dtype):
    model = language_model(kind, dtype)
    yield model(random_tokens()), strangers_logits(kind, model)


@every_kind
def test_it_has_as_many_parameters_as_the_strangers(kind):
    ours = language_model(kind)
    counts = [sum(one.numel() for one in model.parameters()) for model in (ours, stranger_from_ours(kind, ours))]
    assert counts[0] == counts[1]


@pytest.mark.planted
@every_kind
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(kind):
    model = language_model(kind)
    wanted = strangers_logits(kind, model)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(random_tokens()), wanted))
    # A bias of the keys adds the same to every score of a query, unless a rotation turns it with the key.
    unturned = {name for name, _ in model.named_parameters() if name.endswith("key.bias") and model.rope is None}
    assert blind == unturned


@pytest.mark.planted
@pytest.mark.parametrize(
    ("kind", "broken"),
    [(kind, "causal_mask") for kind in KINDS]
    + [(kind, "window_mask") for kind, config in KINDS.items() if config.window],
)
def test_a_mask_that_hides_nothing_is_seen(kind, broken, monkeypatch):
    model = language_model(kind)
    wanted = strangers_logits(kind, model)
    monkeypatch.setattr(decoder, broken, everything(broken))
    assert difference(model(random_tokens()), wanted) > 1e-3


def everything(mask):
    if mask == "causal_mask":
        return lambda length, device: torch.ones(1, 1, length, length, dtype=torch.bool)
    return lambda queries, keys, window: torch.ones(len(queries), 1, queries.shape[1], len(keys), dtype=torch.bool)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gpt2", {"activation": "gelu"}),
        ("gpt2", {"norm_eps": 1e-6}),
        ("llama", {"norm_eps": 1e-6}),
        ("llama", {"rope": RopeConfig(theta=20_000.0)}),
        ("llama", {"rope": RopeConfig(layout="interleaved")}),
        ("llama", {"activation": "gelu"}),
        ("mistral", {"window": 5}),
        ("qwen2, window from layer 1", {"first_window_layer": 0}),
    ],
    ids=str,
)
def test_another_setting_is_seen(kind, changes):
    wanted = strangers_logits(kind, language_model(kind))
    assert difference(language_model(kind, **changes)(random_tokens()), wanted) > 1e-7


@pytest.mark.planted
@pytest.mark.parametrize(
    "change",
    [{"factor": 8.0}, {"low_frequency_factor": 1.5}, {"high_frequency_factor": 6.0}, {"original_length": 16}],
    ids=str,
)
def test_every_number_of_llama_3s_scaling_is_seen(change):
    kind = "llama, llama 3 rope"
    wanted = strangers_logits(kind, language_model(kind))
    changed = dataclasses.replace(KINDS[kind].rope, **change)
    assert difference(language_model(kind, rope=changed)(random_tokens()), wanted) > 1e-6
