"""Calls of tools: what holds an answer to them, how they are read, and what the official client makes of them."""

import asyncio
import json

import pytest
from llguidance import LLMatcher, LLTokenizer, grammar_from
from openai import AsyncOpenAI
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from attendant.errors import InputError
from serving.gateway.chat_templates import ChatTemplates
from serving.gateway.tool_parser import ToolCall, ToolCallDelta, ToolParser, read_calls
from serving.gateway.tools import HERMES, LLAMA, MISTRAL, Tools, tool_format
from tests.serving.gateway.fake_triton import FakeTriton, config_of, delta, gateway_of, integers

ADD = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/Number"}},
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"Number": {"type": "integer"}},
}
SCHEMAS = {"add": ADD, "now": {"type": "object", "additionalProperties": False}}
TOOLS = [
    {"type": "function", "function": {"name": "add", "description": "adds", "parameters": ADD}},
    {"type": "function", "function": {"name": "now", "parameters": SCHEMAS["now"]}},
]
TEMPLATE = (
    "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{% for m in messages %}{{ m | tojson }}{% endfor %}"
)
QWEN = tool_format("{{ tools }}<tool_call></tool_call>")
FORMATS = {"hermes": HERMES, "qwen": QWEN, "llama": LLAMA, "mistral": MISTRAL}
formats = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)


def call(form, name="add", arguments='{"a": 1}'):
    return f'{{"name": "{name}", "{form.arguments}": {arguments}}}'


def calls(form, *ones, forced=False):
    return ("" if forced else form.begin) + form.between.join(ones) + form.end


def takes(tools, text):
    matcher = LLMatcher(LLTokenizer("byte"), grammar_from("grammar", tools.grammar()), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = list(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


@formats
def test_a_call_that_must_come_is_of_the_schema(form):
    tools = Tools(schemas=SCHEMAS, format=form, is_forced=True)
    assert takes(tools, calls(form, call(form), call(form, "now", "{}"), forced=True))
    for wrong in (call(form, arguments='{"a": "1"}'), call(form, "other"), "hello"):
        assert not takes(tools, calls(form, wrong, forced=True))
    alone = Tools(schemas=SCHEMAS, format=form, is_forced=True, are_parallel=False)
    assert takes(alone, calls(form, call(form), forced=True))
    assert not takes(alone, calls(form, call(form), call(form), forced=True))


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "integer"}}},
        {"title": "x"},
        {},
        {"anyOf": [{"type": "integer"}, {"type": "object"}]},
        {"type": ["object", "null"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {"type": "integer"}}}}},
    ],
)
def test_arguments_are_an_object_whether_a_schema_says_so_or_not(schema):
    tools = Tools(schemas={"add": schema}, format=HERMES, is_forced=True)
    assert takes(tools, calls(HERMES, call(HERMES), forced=True))
    for wrong in ("1", "null", "[]", '"a"'):
        assert not takes(tools, calls(HERMES, call(HERMES, arguments=wrong), forced=True))


@pytest.mark.parametrize("form", [HERMES, LLAMA], ids=["hermes", "llama"])
def test_one_that_may_come_is_too_and_text_is_free(form):
    tools = Tools(schemas=SCHEMAS, format=form)
    assert takes(tools, "hello, {you}") and takes(tools, calls(form, call(form), call(form, "now", "{}")))
    assert not takes(tools, calls(form, call(form, arguments='{"a": "1"}')))
    alone = Tools(schemas=SCHEMAS, format=form, are_parallel=False)
    assert takes(alone, calls(form, call(form))) and not takes(alone, calls(form, call(form), call(form)))


def test_where_a_special_token_begins_calls_the_guide_asks_for_it_by_its_number():
    grammar = Tools(schemas=SCHEMAS, format=MISTRAL, marker_token=TOOL_CALLS).grammar()
    matcher = LLMatcher(with_special_token(), grammar_from("grammar", grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()

    def takes_tokens(tokens):
        one = matcher.deep_copy()
        return one.try_consume_tokens(tokens) == len(tokens) and one.is_accepting()

    def spelled(text):
        return [SPELLED[byte] for byte in text.encode()]

    written = f" [{call(MISTRAL)}, {call(MISTRAL, 'now', '{}')}]"
    assert takes_tokens([TOOL_CALLS, *spelled(written)])
    wrong = f"[{call(MISTRAL, arguments=chr(123) + chr(125))}]"
    assert not takes_tokens([TOOL_CALLS, *spelled(wrong)])
    for spelt in (wrong, f"[TOOL_CALLS]{wrong}", f"[TOOL_CALLS] {wrong}"):
        assert not takes_tokens(spelled(spelt)), "written without the token it would be read as a call"
    assert takes_tokens(spelled('[{"a": 1}] hello')) and takes_tokens([])
    assert Tools(schemas=SCHEMAS, format=MISTRAL).grammar() is None


TOOL_CALLS = 257
_LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
_OF_BYTES = {letter: number for number, letter in enumerate(_LETTERS)}


def with_special_token():
    library = Tokenizer(BPE(_OF_BYTES, []))
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    library.add_special_tokens(["</s>", "[TOOL_CALLS]"])
    SPELLED.update({byte: library.encode(chr(byte)).ids[0] for byte in range(128)})
    return LLTokenizer(library.to_str(), n_vocab=258, eos_token=[256])


SPELLED = {}


@formats
@pytest.mark.parametrize("is_forced", [False, True])
def test_calls_are_read_as_they_were_written(form, is_forced):
    tools = Tools(schemas=SCHEMAS, format=form, is_forced=is_forced)
    written = calls(form, call(form), call(form, "now", "{}"), forced=is_forced)
    expected = [ToolCall(name="add", arguments='{"a": 1}'), ToolCall(name="now", arguments="{}")]
    assert read_calls(tools, written) == expected
    cut = written[: len(written) // 4]
    assert read_calls(tools, cut) == [cut]
    if not is_forced:
        assert read_calls(tools, "hello { [1] ") == ["hello { [1] "]


def test_text_around_calls_is_content_and_unknown_tools_are_text():
    tools = Tools(schemas=SCHEMAS, format=HERMES)
    one = ToolCall(name="add", arguments='{"a": 1}')
    assert read_calls(tools, f"so: {calls(HERMES, call(HERMES))}\n so") == ["so: ", one, "so"]
    unknown = calls(HERMES, call(HERMES, "other"))
    assert read_calls(tools, unknown) == [unknown]
    assert read_calls(tools, unknown + calls(HERMES, call(HERMES))) == [unknown, one]
    assert read_calls(Tools(schemas=SCHEMAS, format=MISTRAL), "[" + call(MISTRAL) + "]") == [one]  # without its token
    for deep in ("[" * 100_000, '{"name": "' + "a" * 100_000):
        assert read_calls(tools, "<tool_call>" + deep) == ["<tool_call>" + deep]


def test_a_call_that_the_limit_cuts_is_a_call_as_far_as_it_came():
    written = '{"name": "add", "arguments": {"a": "1\\'
    assert read_calls(Tools(schemas=SCHEMAS, format=HERMES), f"<tool_call>{written}") == [
        ToolCall(name="add", arguments='{"a": "1\\')
    ]


@pytest.mark.parametrize("arguments", ['{"a": "1', '{"a": 1', "{", ""])
def test_a_call_that_was_cut_is_told_from_a_whole_one(arguments):
    tools = Tools(schemas=SCHEMAS, format=HERMES)
    for written, is_whole in ((arguments, False), ('{"a": "1"}', True)):
        text, parser = f'<tool_call>{{"name": "add", "arguments": {written}', ToolParser(tools)
        parser.add(text, is_last=True)
        *_, call = read_calls(tools, text)
        assert parser.has_whole_calls is is_whole
        assert (call.is_whole if isinstance(call, ToolCall) else False) is is_whole


ODD = '{"a": "}]\\"</tool_call>", "b": [{}, "\\\\"], "c": "é"}'


@formats
@pytest.mark.parametrize("is_forced", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.planted
def test_in_pieces_of_any_size_a_call_is_its_name_and_then_its_arguments(form, is_forced, size):
    tools = Tools(schemas=SCHEMAS, format=form, is_forced=is_forced)
    written = calls(form, call(form, arguments=ODD), call(form, "now", "{}"), forced=is_forced)
    parser, parts = ToolParser(tools), []
    for begin in range(0, len(written), size):
        parts += parser.add(written[begin : begin + size], begin + size >= len(written))
    assert all(isinstance(part, ToolCallDelta) for part in parts), parts
    for index, (name, arguments) in enumerate([("add", ODD), ("now", "{}")]):
        first, *rest = [part for part in parts if part.index == index]
        assert (first.name, first.arguments) == (name, "") and first.id.startswith("call_")
        assert "".join(part.arguments for part in rest) == arguments and not any(part.id or part.name for part in rest)
        assert len(rest) >= len(arguments) // (2 * size), "fragments wait for the end of an escape alone"
    whole = [ToolCall(name="add", arguments=ODD), ToolCall(name="now", arguments="{}")]
    assert read_calls(tools, written) == whole


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{{ tools }}<tool_call>", HERMES),
        ("{{ tools }}[TOOL_CALLS]", MISTRAL),
        ('{{ tools }}{"name": "f", "parameters": {}}', LLAMA),
    ],
)
def test_a_template_says_how_its_model_calls(template, form):
    assert tool_format(template) is form


@pytest.mark.parametrize("template", ["{{ messages }}", "{{ tools }}", "{{ tools }}<tool_call><function="])
def test_one_that_does_not_is_refused(template):
    with pytest.raises(InputError, match="a chat template that calls tools"):
        tool_format(template)


class Server(FakeTriton):
    """A model that says something character by character."""

    def __init__(self, text, template=f"{TEMPLATE}<tool_call>"):
        counts = {"num_input_tokens": integers([[3]]), "num_output_tokens": integers([[1]])}
        pieces = [delta(one, finish_reason="", **counts) for one in text]
        super().__init__(
            config_of("chatty", "generate", max_length="999", chat_template=template),
            deltas=[*pieces, delta("", finish_reason="stop", **counts)],
        )


def prompt_to(server):
    texts = [raw.decode(errors="replace") for request in server.requests for raw in request.raw_input_contents]
    return next(text for text in texts if "user" in text)


def converse(server, use, **asked):
    async def ask():
        async with gateway_of(server) as http:
            client = AsyncOpenAI(base_url="http://127.0.0.1:8080/v1", api_key="none", http_client=http, max_retries=0)
            body = {"model": "chatty", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **asked}
            return await use(client.chat.completions, body)

    return asyncio.run(ask())


async def whole(chat, body):
    return (await chat.create(**body)).choices[0]


async def streamed(chat, body):
    async with chat.stream(**body) as stream:
        kinds = [event.type async for event in stream]
        assert kinds[0] == "chunk"
        if stream.current_completion_snapshot.choices[0].message.tool_calls:
            assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
        return (await stream.get_final_completion()).choices[0]


TEMPLATES = {
    "hermes": "{# tools #}<tool_call>",
    "qwen": "{# tools #}<tool_call></tool_call>",
    "llama": '{# tools "parameters" #}',
    "mistral": "{# tools [TOOL_CALLS] #}",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("use", [whole, streamed])
def test_the_official_client_reads_calls(use, name):
    form = FORMATS[name]
    before = "so " if form.speaks_marker else ""
    written = before + calls(form, call(form, arguments='{"a": 3}'), call(form, "now", "{}"))
    choice = converse(Server(written.removeprefix("[TOOL_CALLS]"), TEMPLATES[name] + TEMPLATE), use)
    found = [(one.function.name, json.loads(one.function.arguments)) for one in choice.message.tool_calls]
    assert found == [("add", {"a": 3}), ("now", {})] and choice.message.content == (before or None)
    assert choice.finish_reason == "tool_calls" and len({one.id for one in choice.message.tool_calls}) == 2


def test_a_stream_says_the_name_before_the_arguments_have_come():
    async def chunks(chat, body):
        return [chunk async for chunk in await chat.create(**body, stream=True)]

    said = "so " + calls(HERMES, call(HERMES, arguments='{"a": 12345}'))
    found = converse(Server(said), chunks)
    deltas = [call for chunk in found for call in chunk.choices[0].delta.tool_calls or ()]
    first, *rest = deltas
    assert (first.index, first.function.name, first.function.arguments) == (0, "add", "") and first.id
    assert [one.function.arguments for one in rest] == list('{"a": 12345}')
    assert not any(one.id or one.function.name for one in rest)
    reasons = [chunk.choices[0].finish_reason for chunk in found]
    assert reasons[-1] == "tool_calls" and not any(reasons[:-1])


@pytest.mark.parametrize("use", [whole, streamed])
def test_text_stays_text(use):
    choice = converse(Server("a < b <tool"), use)
    assert choice.message.content == "a < b <tool" and not choice.message.tool_calls and choice.finish_reason == "stop"


def test_what_must_be_called_is_begun_in_the_prompt_and_the_model_is_told_its_tools_and_results():
    server = Server(call(HERMES) + HERMES.end)
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": CALLED}], "content": None},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]
    chosen = {"type": "function", "function": {"name": "add"}}
    choice = converse(server, whole, tool_choice=chosen, messages=history)
    assert choice.message.tool_calls[0].function.name == "add" and choice.message.content is None
    prompt = prompt_to(server)
    assert prompt.endswith("<tool_call>\n") and 'add {"role": "user"' in prompt and "now" not in prompt
    assert '"arguments": {"a": 2}' in prompt and '"tool_call_id": "c1"' in prompt


CALLED = {"name": "add", "arguments": '{"a": 2}'}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "tools"),
        ({"messages": [{"role": "user"}]}, "messages.0"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}]}, "tools"),
    ],
)
def test_what_cannot_be_is_refused_by_name(asked, param):
    async def ask():
        async with gateway_of(Server("a")) as http:
            body = {"model": "chatty", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **asked}
            return await http.post("/v1/chat/completions", json=body)

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text


@pytest.mark.planted
@pytest.mark.parametrize("use", [whole, streamed])
def test_of_two_servers_each_is_asked_and_read_in_the_format_that_its_own_template_has(use):
    servers = [Server(call(form) + form.end, TEMPLATES[name] + TEMPLATE) for name, form in BOTH]

    async def ask():
        async with gateway_of(*servers) as http:
            client = AsyncOpenAI(base_url="http://127.0.0.1:8080/v1", api_key="none", http_client=http, max_retries=0)
            body = {"model": "chatty", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS}
            return [await use(client.chat.completions, {**body, "tool_choice": "required"}) for _ in range(6)]

    choices = asyncio.run(ask())
    assert [choice.message.tool_calls[0].function.name for choice in choices] == ["add"] * 6
    for server, (_, form) in zip(servers, BOTH, strict=True):
        prompts = [request for request in server.requests if any(b"user" in raw for raw in request.raw_input_contents)]
        assert len(prompts) == 3
        for request in prompts:
            said = b"".join(request.raw_input_contents).decode(errors="replace")
            assert ("<tool_call>\n" in said) == (form is HERMES)
            assert json.dumps(form.arguments)[1:-1] in said, "the guide is of the same format"


@pytest.mark.planted
def test_a_model_that_was_exchanged_since_is_asked_in_its_new_format():
    server = Server(call(LLAMA), TEMPLATES["llama"] + TEMPLATE)

    async def ask():
        async with gateway_of(server) as http:
            body = {"model": "chatty", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS}
            await http.post("/v1/chat/completions", json={**body, "tool_choice": "required"})
            other = Server(call(HERMES) + HERMES.end)
            server.configs, server.deltas = other.configs, other.deltas
            await asyncio.sleep(0.3)  # longer than a gateway believes what a server said
            server.requests.clear()
            return await http.post("/v1/chat/completions", json={**body, "tool_choice": "required"})

    (choice,) = asyncio.run(ask()).json()["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "add"
    assert prompt_to(server).endswith("<tool_call>\n") or "<tool_call>\n" in prompt_to(server)


@pytest.mark.planted
def test_a_chat_whose_model_is_exchanged_while_it_is_rendered_is_rendered_anew(monkeypatch):
    server, other = Server("a", TEMPLATES["llama"] + TEMPLATE), Server(call(HERMES) + HERMES.end)
    render, rendered = ChatTemplates.render, []

    async def slowly(self, model, *asked):
        prompt = await render(self, model, *asked)
        rendered.append(prompt)
        server.configs, server.deltas = other.configs, other.deltas
        await asyncio.sleep(0.3)  # longer than a gateway believes what a server said
        return prompt

    monkeypatch.setattr(ChatTemplates, "render", slowly)
    choice = converse(server, whole, tool_choice="required")
    assert choice.message.tool_calls[0].function.name == "add" and len(rendered) == 2
    assert "<tool_call>\n" in prompt_to(server)


BOTH = [("hermes", HERMES), ("llama", LLAMA)]


def test_none_calls_nothing_and_tells_of_nothing():
    server = Server("plain")
    assert converse(server, whole, tool_choice="none").message.content == "plain"
    assert "add" not in prompt_to(server) and "user" in prompt_to(server)
