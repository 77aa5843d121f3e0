"""Calls of tools by real engines before a real Triton, and how many tokens of a prompt were cached.

Random weights call whatever the guide leaves them: that arguments are of the schema is the guide's doing.
"""

import json

import pytest
from openai import OpenAI
from tokenizers import Tokenizer

from serving.triton.repository.layout import write_repository
from tests.end_to_end.gateways import started as gateway_before
from tests.end_to_end.servers import started
from tests.text_checkpoints import write_language_model

SEES = "{% for message in messages %}{{ message.role[0] }}:{{ message.content }};{% endfor %}a:{# tools #}"
KINDS = {
    "hermes": SEES + "{# <tool_call> #}",
    "qwen": SEES + "{# <tool_call> #}",
    "llama": SEES + '{# "parameters" #}',
    "mistral": SEES + "{# [TOOL_CALLS] #}",
}
SPECIAL = "[TOOL_CALLS]"
ADDED = ("<tool_call>", "</tool_call>")  # tokens of their own, and no special ones
ARGUMENTS = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
STRICT = {**ARGUMENTS, "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "lamp", "parameters": STRICT}}]


def artefact_of(exported, kind):
    def write(folder):
        special = SPECIAL if kind == "mistral" else "</s>"
        added = ADDED if kind == "qwen" else ()
        return write_language_model(
            folder, name=kind, template=KINDS[kind], special=special, added=added, max_length=160
        )

    return exported(exported.checkpoint(f"calls-{kind}", write))


@pytest.fixture(scope="module")
def openai(exported, tmp_path_factory):
    artefacts = [artefact_of(exported, kind) for kind in KINDS]
    repository = tmp_path_factory.mktemp("tools") / "repository"
    write_repository(artefacts, repository)
    old = repository / "llama/config.pbtxt"  # as one that was laid out before there was this output
    head, found, tail = old.read_text().partition('output {\n  name: "num_cached_tokens"')
    assert found
    old.write_text(head + tail.partition("}\n")[2])
    with (
        started(repository) as server,
        gateway_before(server.endpoints.grpc) as gateway,
        OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


def ask(kind, seed, **asked):
    messages = [{"role": "user", "content": "the lamp"}]
    return {"model": kind, "messages": messages, "tools": TOOLS, "seed": seed, "max_tokens": 120, **asked}


def said(message):
    return message.content, [(one.function.name, one.function.arguments) for one in message.tool_calls or ()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_streams_fragments_are_the_whole_answers_call(openai, kind, seed):
    asked = ask(kind, seed, tool_choice="required", parallel_tool_calls=False)
    whole = openai.chat.completions.create(**asked).choices[0]
    with openai.chat.completions.stream(**asked) as stream:
        events = [event.type for event in stream]
        streamed = stream.get_final_completion().choices[0]
    assert said(streamed.message) == said(whole.message) and streamed.finish_reason == whole.finish_reason
    (call,) = whole.message.tool_calls
    assert call.function.name == "lamp" and type(json.loads(call.function.arguments)["on"]) is bool
    assert whole.finish_reason == "tool_calls" and "tool_calls.function.arguments.delta" in events


def test_where_text_may_come_a_model_may_say_the_added_token_that_begins_a_call(openai, exported):
    token = Tokenizer.from_file(str(artefact_of(exported, "qwen") / "tokenizer.json")).token_to_id(ADDED[0])
    asked = ask("qwen", 1, logit_bias={str(token): 100}, parallel_tool_calls=False)
    assert openai.chat.completions.create(**asked | {"max_tokens": 1}).choices[0].message.content == ADDED[0]
    (call,) = openai.chat.completions.create(**asked).choices[0].message.tool_calls
    assert call.function.name == "lamp" and type(json.loads(call.function.arguments)["on"]) is bool


def test_where_text_may_come_a_call_that_a_special_token_begins_is_held_to_its_schema(openai, exported):
    token = Tokenizer.from_file(str(artefact_of(exported, "mistral") / "tokenizer.json")).token_to_id(SPECIAL)
    asked = ask("mistral", 1, logit_bias={str(token): 100}, parallel_tool_calls=False)
    choice = openai.chat.completions.create(**asked).choices[0]
    (call,) = choice.message.tool_calls
    assert call.function.name == "lamp" and type(json.loads(call.function.arguments)["on"]) is bool
    assert choice.finish_reason == "tool_calls" and choice.message.content is None


def test_a_repository_that_was_laid_out_before_says_no_cached_tokens_and_answers(openai):
    usage = openai.chat.completions.create(**ask("llama", 3, max_tokens=1)).usage
    assert usage.prompt_tokens_details is None and usage.prompt_tokens > 2


def test_a_prompt_that_was_asked_before_is_said_to_be_cached(openai):
    asked = {"model": "hermes", "messages": [{"role": "user", "content": "the cat " * 20}], "max_tokens": 2}
    first, second = (openai.chat.completions.create(**asked).usage for _ in range(2))
    assert first.prompt_tokens_details.cached_tokens == 0
    assert 32 <= second.prompt_tokens_details.cached_tokens < second.prompt_tokens
    answer = openai.responses.create(model="hermes", input="the cat " * 20, max_output_tokens=16)
    assert answer.usage.input_tokens_details.cached_tokens == second.prompt_tokens_details.cached_tokens
