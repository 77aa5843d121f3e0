import dataclasses
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attendant.errors import ConfigError
from models.layers.rope import RopeConfig
from tests.models.agreement import EXACT, difference
from tests.models.families.cached_decoding import STALE, seen_mask
from tests.models.families.language_models import KINDS, LENGTH, language_model, random_tokens

ROWS = 3
TOKENS = random_tokens(ROWS)
MODELS = {kind: language_model(kind) for kind in KINDS}
FULL = {kind: model(TOKENS) for kind, model in MODELS.items()}


def stale_caches(config):
    shape = ROWS, config.kv_heads, config.max_length, config.head_size
    like = torch.zeros(shape, dtype=torch.float64)
    return [(like + STALE, like - STALE) for _ in range(config.layers)]


def decode_in_calls(model, calls, spare=0, start_error=0):
    """Logits of all positions, the calls taking so many tokens each; each row is ``row`` tokens behind the first."""
    caches, begin, parts = stale_caches(model.config), 0, []
    for size in calls:
        start = torch.full((ROWS,), begin) + start_error * bool(begin)
        attended = min(int(start.max()) + size + spare, model.config.max_length)
        mask = seen_mask(start, size, attended)
        logits, caches = model.decode_cached(TOKENS[:, begin : begin + size], start, mask, caches)
        parts.append(logits)
        begin += size
    return torch.cat(parts, dim=1)


@st.composite
def splits(draw):
    cuts = sorted(draw(st.sets(st.integers(1, LENGTH - 1))))
    return [end - begin for begin, end in pairwise([0, *cuts, LENGTH])]


@pytest.mark.parametrize("kind", KINDS)
@given(calls=splits(), spare=st.integers(0, 1))
def test_any_split_of_a_cached_decode_equals_the_full_forward(kind, calls, spare):
    found = decode_in_calls(MODELS[kind], calls, spare)
    assert difference(found, FULL[kind]) <= EXACT


@pytest.mark.planted
@pytest.mark.parametrize("kind", KINDS)
def test_a_start_that_is_wrong_by_one_is_seen(kind):
    assert difference(decode_in_calls(MODELS[kind], [4, 5], start_error=1), FULL[kind][:, :9]) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_rows_at_different_positions_do_not_touch_each_other(kind):
    model, behind = MODELS[kind], torch.tensor([0, 2, 3])
    caches = stale_caches(model.config)
    first = 6
    _, caches = model.decode_cached(
        TOKENS[:, :first], torch.zeros(ROWS, dtype=torch.int64), seen_mask(torch.zeros(ROWS), first, first), caches
    )
    start = first - behind
    new = torch.stack([TOKENS[row, begin : begin + 4] for row, begin in enumerate(start.tolist())])
    logits, _ = model.decode_cached(new, start, seen_mask(start, 4, first + 4), caches)
    for row, begin in enumerate(start.tolist()):
        assert difference(logits[row], FULL[kind][row, begin : begin + 4]) <= EXACT


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_batch_are_independent(kind):
    for row in range(ROWS):
        assert difference(MODELS[kind](TOKENS[[row]]), FULL[kind][[row]]) <= EXACT


@pytest.mark.parametrize("kind", KINDS)
def test_no_position_sees_its_future(kind):
    changed = TOKENS.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 31
    found = MODELS[kind](changed)
    assert difference(found[:, :7], FULL[kind][:, :7]) == 0
    assert difference(found[:, 7:], FULL[kind][:, 7:]) > 1e-3


def test_behind_a_window_a_layer_forgets():
    model = language_model("mistral", layers=1)
    changed = TOKENS.clone()
    changed[:, 0] = (changed[:, 0] + 1) % 31
    before, after = model(TOKENS), model(changed)
    window = model.config.window
    assert difference(before[:, window:], after[:, window:]) == 0
    assert difference(before[:, window - 1], after[:, window - 1]) > 1e-6


def test_dropout_rests_in_evaluation():
    model = language_model("llama", dropout=0.5)
    assert torch.equal(model(TOKENS), FULL["llama"])  # the same computation twice, in one process
    assert difference(model.train()(TOKENS), FULL["llama"]) > 1e-3


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("llama", {"kv_heads": 3}, "heads to be a multiple of 3 kv_heads"),
        ("llama", {"rope": None}, "either position_table or rope"),
        ("llama", {"position_table": 12}, "either position_table or rope"),
        ("gpt2", {"max_length": 13}, "max_length within position_table"),
        ("llama", {"norm": "batch"}, "norm, one of"),
        ("llama", {"activation": "swish"}, "activation, one of"),
        ("llama", {"tied": 1}, "tied to be true or false"),
        ("mistral", {"window": 0}, "window to be a positive integer"),
        ("mistral", {"first_window_layer": 2}, "first_window_layer from 0 to 1"),
        ("llama", {"rope": RopeConfig(), "head_size": 5}, "head"),
    ],
    ids=str,
)
def test_a_configuration_that_fits_nothing_is_refused(kind, changes, message):
    with pytest.raises(ConfigError, match=message):
        language_model(kind, **changes)


def test_a_configuration_survives_json():
    from attendant.config import config_from_json, config_to_json
    from models.families.decoder import DecoderConfig

    for config in KINDS.values():
        assert config_from_json(DecoderConfig, config_to_json(config)) == dataclasses.replace(config)
