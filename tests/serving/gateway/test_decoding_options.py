"""What requests call the options of decoding."""

import json

import pytest
from pydantic import ValidationError

from attendant.errors import InputError
from attendant.sampling_params import PARAMS, SamplingParams
from serving.gateway.schemas.chat import ChatRequest
from serving.gateway.schemas.completions import CompletionRequest
from serving.gateway.schemas.native import TranslationRequest

ASKED = {"model": "stdlib-lm", "prompt": "a"}


def test_parameters_have_the_names_of_openai_and_of_vllm():
    sent = {"n": 2, "stop": "x", "ignore_eos": True, "stop_token_ids": [3], "min_p": 0.5, "logit_bias": {"4": 1.5}}
    wanted = SamplingParams(
        temperature=1.0, n=2, stop=("x",), ignore_eos=True, stop_token_ids=(3,), min_p=0.5, logit_bias={4: 1.5}
    )
    assert CompletionRequest.model_validate(ASKED | sent).sampling_params(counts=False) == wanted


def test_what_a_request_leaves_out_is_the_tables_default_but_for_openais_temperature():
    assert CompletionRequest.model_validate(ASKED).sampling_params(counts=True) == SamplingParams(
        temperature=1.0, token_counts=True
    )
    beams = CompletionRequest.model_validate({**ASKED, "beam_width": 2}).sampling_params(counts=False)
    assert beams == SamplingParams(beam_width=2)


@pytest.mark.parametrize("name", [name for name, param in PARAMS.items() if param.le is not None])
def test_a_field_has_the_bounds_of_its_row(name):
    body = {"model": "dates-transformer", "input": "a", name: PARAMS[name].le * 2}
    with pytest.raises(ValidationError, match=name):
        TranslationRequest.model_validate(body)


def test_completions_and_translations_may_read_special_tokens_and_chats_never_do():
    assert CompletionRequest.model_validate(ASKED | {"parse_special": True}).parse_special
    assert TranslationRequest.model_validate({"model": "a", "input": "a", "parse_special": True}).parse_special
    chat = {"model": "a", "messages": [{"role": "user", "content": "a"}], "parse_special": True}
    with pytest.raises(ValidationError, match="parse_special"):
        ChatRequest.model_validate(chat)


def _keywords(schema):
    """Every keyword of a JSON schema and its values, however deep."""
    if isinstance(schema, dict):
        yield from ((name, value) for name, value in schema.items() if not isinstance(value, dict | list))
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _keywords(part)


BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "max_length": "maxLength"}


@pytest.mark.parametrize("request_type", [CompletionRequest, ChatRequest, TranslationRequest])
def test_openapi_says_the_bounds_of_the_table(request_type):
    properties, checked = request_type.model_json_schema()["properties"], set()
    for name, param in PARAMS.items():
        said = set(_keywords(properties.get(name, {})))
        bounds = {word: getattr(param, word) for word in BOUNDS if getattr(param, word) is not None}
        for word, bound in bounds.items():
            if said:
                bound = (
                    1 if (name, word, request_type) == ("max_tokens", "ge", ChatRequest) else bound
                )  # a chat answers
                assert (BOUNDS[word], min(bound, 2**31 - 1) if name != "seed" else bound) in said, (name, said)
                checked.add(name)
        if said and param.max_items is not None:
            assert {("maxItems", param.max_items), ("maxProperties", param.max_items)} & said, (name, said)
            checked.add(name)
    assert checked >= {"stop", "stop_token_ids", "logit_bias", "regex", "temperature", "n", "seed", "top_p"}


def test_a_native_request_takes_every_parameter_of_the_table():
    taken = TranslationRequest.model_fields.keys()
    assert PARAMS.keys() - taken == {"echo", "token_counts"}


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"guided_json": {"type": "object"}}, {"json_schema": '{"type": "object"}'}),
        ({"guided_json": '{"type": "object"}'}, {"json_schema": '{"type": "object"}'}),
        ({"guided_regex": "[ab]+"}, {"regex": "[ab]+"}),
        ({"guided_grammar": "start: /a/"}, {"grammar": "start: /a/"}),
        ({"guided_choice": ["yes", 'n"o']}, {"grammar": 'start: CHOICE\nCHOICE: "yes" | "n\\"o"'}),
        ({"structured_outputs": {"json": True}}, {"json_schema": "true"}),
        ({"structured_outputs": {"json_object": True}}, {"json_object": True}),
        ({"structured_outputs": {"choice": ["🙂"]}}, {"grammar": 'start: CHOICE\nCHOICE: "🙂"'}),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        ({}, {}),
    ],
)
def test_a_structure_is_said_as_vllm_and_openai_say_it(sent, param):
    read = CompletionRequest.model_validate(ASKED | sent).sampling_params(counts=False)
    assert read == SamplingParams(temperature=1.0, **param)


def test_of_several_structures_none_is_passed_over():
    sent = {"guided_choice": ["a"], "structured_outputs": {"grammar": "start: /b/"}}
    with pytest.raises(InputError, match="one structure of an answer; found grammar, grammar"):
        CompletionRequest.model_validate(ASKED | sent).sampling_params(counts=False)


@pytest.mark.parametrize("own", ["regex", "grammar"])
@pytest.mark.parametrize("theirs", [{"guided_{}": "start: /b/"}, {"structured_outputs": {"{}": "start: /b/"}}])
def test_nor_where_one_is_said_by_our_name(own, theirs):
    sent = json.loads(json.dumps({own: "start: /a/", **theirs}).replace("{}", own))
    with pytest.raises(InputError, match=f"one structure of an answer; found {own}, {own}"):
        CompletionRequest.model_validate(ASKED | sent).sampling_params(counts=False)


def test_another_name_is_refused():
    with pytest.raises(ValidationError, match="ignore_ends"):
        CompletionRequest.model_validate({**ASKED, "ignore_ends": True})
