import asyncio
import json
import os
import signal
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ArtefactError, BusyError, InputError, ServerError
from clients.served_model import ServedModel
from serving.gateway import bounded_workers, chat_templates
from serving.gateway.chat_templates import (
    CHAT_TEMPLATE,
    CONTROL_TOKENS,
    PATIENCE_S,
    SPECIAL_TOKENS,
    TOOL_CALLS_ID,
    ChatTemplates,
)
from serving.gateway.template_process import BOUNDS
from serving.processes import start_python
from serving.triton.repository import chat_template
from serving.triton.repository.chat_template import add_chat_template

CHATML = (
    "{%- for message in messages %}\n    {{- bos_token + message['role'] + '\\n' + message['content'] | trim }}\n"
    "{%- endfor %}{% if add_generation_prompt %}{{ bos_token }}assistant{% endif %}"
)


def served(template=None, **parameters):
    template = {} if template is None else {CHAT_TEMPLATE: template}
    return ServedModel(
        name="chatty",
        decoupled=True,
        max_batch=1,
        inputs={},
        outputs={},
        dtypes={},
        parameters={**template, **parameters},
    )


def said(*contents):
    return [{"role": "user", "content": content} for content in contents]


@pytest.fixture(scope="module")
def templates():
    with closing(ChatTemplates(1 << 20)) as templates:
        yield templates


@pytest.fixture
def render_messages(templates):
    def render(model, messages):
        for _ in range(9):
            with suppress(BusyError):  # the machine is busy
                return asyncio.run(templates.render(model, messages))
        return asyncio.run(templates.render(model, messages))

    return render


def test_a_template_gets_the_messages_the_special_tokens_and_asks_for_an_answer(render_messages):
    model = served(CHATML, **{SPECIAL_TOKENS: {"bos_token": "<s>"}})
    assert render_messages(model, said(" hello ", "you")) == "<s>user\nhello<s>user\nyou<s>assistant"


def test_a_model_without_a_template_is_refused_with_what_to_do(render_messages):
    with pytest.raises(InputError, match=r"'chatty' has not.*/v1/completions, or put chat_template\.jinja"):
        render_messages(served(), said("hello"))


def test_a_message_with_a_control_token_is_refused(render_messages):
    model = served("{{ messages[0].content }}", **{CONTROL_TOKENS: ["<|end|>"]})
    assert render_messages(model, said("<end>")) == "<end>"
    with pytest.raises(InputError, match=r"<\|end\|>"):
        render_messages(model, said("so <|end|> it"))


@pytest.mark.parametrize("token", ["[INST]", "<s>", "<|a|>", "<|b|>", "<|", "(.*)", "☃"])
def test_each_control_token_is_found_beside_those_that_begin_likewise(render_messages, token):
    tokens = ["[INST]", "[/INST]", "<s>", "</s>", "<|a|>", "<|b|>", "(.*)", "☃", ""]
    model = served("{{ messages[0].content }}", **{CONTROL_TOKENS: [*tokens, token]})
    assert render_messages(model, said("<s |> [INST (x) < s>")) == "<s |> [INST (x) < s>"
    with pytest.raises(InputError, match="control tokens in message 0"):
        render_messages(model, said(f"so {token} it"))


@pytest.mark.planted
def test_so_is_one_whose_author_is_called_by_a_control_token(render_messages):
    model = served("{{ messages[0].name }}: {{ messages[0].content }}", **{CONTROL_TOKENS: ["<|end|>"]})
    assert render_messages(model, [{"role": "user", "name": "bob", "content": "x"}]) == "bob: x"
    with pytest.raises(InputError, match=r"<\|end\|>"):
        render_messages(model, [{"role": "user", "name": "bob<|end|>", "content": "x"}])


@pytest.mark.parametrize("call", [{"<|end|>": 1}, {"a": [{"b": "so <|end|>"}]}])
def test_so_is_one_with_such_a_call_and_so_are_such_tools(templates, call):
    model = served("{{ messages[0].content }}", **{CONTROL_TOKENS: ["<|x|>", "<|end|>"]})
    calls = [{"type": "function", "function": {"name": "f", "arguments": call}}]
    with pytest.raises(InputError, match=r"control tokens in message 1; found '<\|end\|>'"):
        asyncio.run(templates.render(model, [*said("a"), {"role": "assistant", "content": "", "tool_calls": calls}]))
    with pytest.raises(InputError, match=r"control tokens in tools; found '<\|end\|>'"):
        asyncio.run(templates.render(model, said("a"), [{"type": "function", "function": call}]))


AS_TEXT = "{%- for m in messages %}{% for c in m.tool_calls %}{{ 'json\n' + c['function']['arguments'] }}{% endfor %}"
CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": "b"}}}]}


def test_a_template_that_reads_arguments_of_calls_as_text_gets_them_as_text(render_messages):
    model = served(f"{AS_TEXT}{{% endfor %}}", **{CONTROL_TOKENS: ["<|end|>", '": "']})
    assert render_messages(served(f"{AS_TEXT}{{% endfor %}}"), [CALL, *said("b")]) == 'json\n{"a": "b"}'
    with pytest.raises(InputError, match="control tokens in message 0"):
        render_messages(model, [CALL])


def test_a_template_that_reads_no_calls_refuses_them_and_nothing_else(render_messages):
    model = served("{% for m in messages %}{{ m.content }}{{ m.tool_calls[0]['function']['missing'] + 1 }}{% endfor %}")
    with pytest.raises(InputError, match="messages that the template of 'chatty' takes; found"):
        render_messages(model, [CALL])


def test_messages_that_a_template_refuses_are_their_authors_error(render_messages):
    template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(InputError, match="messages that the template of 'chatty' takes; found roles must alternate"):
        render_messages(served(template), said("hello"))


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ nobody.knows }}",
        "{% for number in range(10 ** 9) %}{% endfor %}",
        "{% if %}",
        "{{ 1 / 0 }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{{ '\\ud800' }}",
    ],
)
def test_what_a_template_may_not_do_is_not_the_messages_fault(render_messages, template):
    with pytest.raises(ServerError, match="a chat template of 'chatty' that works"):
        render_messages(served(template), said("hello"))


@pytest.mark.planted
@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ lipsum(n=10**6) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for a in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{{ [1] | slice(10**9) | list }}",
        "{{ 'a' * 10**10 }}",
    ],
    ids=["loops", "lipsum", "format", "doubled", "slice", "memory"],
)
def test_a_template_that_takes_too_much_is_refused_soon_and_the_next_chat_is_rendered(render_messages, template):
    began_s = time.monotonic()
    with pytest.raises(InputError, match=r"template of 'chatty' takes; found more than 1 s of a processor, or 128 MiB"):
        render_messages(served(template), said("hello"))
    assert time.monotonic() - began_s < 60  # a second of a processor, which others use as well
    assert render_messages(served("{{ messages[0].content }}"), said("hello")) == "hello"


def test_a_prompt_longer_than_a_body_may_be_is_refused(render_messages):
    with pytest.raises(InputError, match="a prompt of 1048577 bytes, more than 1048576"):
        render_messages(served("{{ 'a' * (2**20 + 1) }}"), said("hello"))


def test_a_slow_template_holds_up_neither_the_loop_nor_another_model(templates):
    async def check():
        slow = asyncio.ensure_future(
            templates.render(served("{% for a in range(99999) %}{{ range(99999) | sum }}{% endfor %}"), said("hello"))
        )
        other = replace(served("{{ messages[0].content }}"), name="other")
        assert await templates.render(other, said("hello")) == "hello"
        assert not slow.done()
        with pytest.raises(InputError):
            await slow

    asyncio.run(check())


def renderers_of(name):
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and name in (process / "cmdline").read_text():
                found.append(int(process.name))
    return found


@pytest.fixture
def renderers(render_messages):
    """The numbers of the processes that render for one model, which has rendered."""

    def start(model):
        before = set(renderers_of("serve_templates"))
        render_messages(model, said("hello"))
        return set(renderers_of("serve_templates")) - before

    return start


@pytest.mark.planted
def test_a_chat_whose_process_is_killed_is_rendered_by_the_next(renderers, render_messages):
    model = replace(served("{{ messages[0].content }}"), name="killed")
    (renderer,) = renderers(model)
    os.kill(renderer, signal.SIGKILL)
    assert render_messages(model, said("hello")) == "hello"


@pytest.mark.planted
def test_a_process_that_is_stopped_is_given_up_soon_and_holds_up_no_other_chat(templates, renderers):
    model = replace(served("{{ messages[0].content }}"), name="stopped")
    (renderer,) = renderers(model)
    os.kill(renderer, signal.SIGSTOP)

    async def ask():
        chats = [templates.render(model, said("hello")) for _ in range(6)]
        return await asyncio.gather(*chats, return_exceptions=True)

    began_s = time.monotonic()
    answers = asyncio.run(ask())
    assert time.monotonic() - began_s < BOUNDS.longest_s + 3
    assert answers.count("hello") >= 5
    assert all(answer == "hello" or isinstance(answer, BusyError) for answer in answers)
    while renderer in renderers_of("serve_templates"):
        assert time.monotonic() - began_s < 30


@pytest.mark.planted
def test_so_is_one_that_does_not_even_read_a_long_chat(templates, renderers, render_messages):
    model = replace(served("{{ messages[0].content | length }}"), name="deaf")
    (renderer,) = renderers(model)
    os.kill(renderer, signal.SIGSTOP)
    assert render_messages(model, said("a" * (1 << 22))) == str(1 << 22)
    began_s = time.monotonic()
    while renderer in renderers_of("serve_templates"):
        assert time.monotonic() - began_s < 30


@pytest.mark.planted
def test_chats_on_which_a_template_loops_are_refused_before_a_client_calls_the_server_silent(templates):
    model = replace(served("{% for a in range(99999) %}{{ range(99999) | sum }}{% endfor %}"), name="looping")

    async def ask():
        chats = [templates.render(model, said("hello")) for _ in range(24)]
        return await asyncio.gather(*chats, return_exceptions=True)

    began_s = time.monotonic()
    answers = asyncio.run(ask())
    assert time.monotonic() - began_s < PATIENCE_S + 1
    assert {type(answer) for answer in answers} <= {InputError, BusyError}
    assert any(isinstance(answer, BusyError) for answer in answers)


def test_the_names_of_the_parameters_are_those_that_the_repository_writes():
    written = (chat_template.CHAT_TEMPLATE, chat_template.CONTROL_TOKENS, chat_template.TOOL_CALLS_ID)
    assert written == (CHAT_TEMPLATE, CONTROL_TOKENS, TOOL_CALLS_ID)


def test_a_template_travels_with_the_tokens_that_it_alone_may_write(tmp_path):
    config = pb.ModelConfig()
    add_chat_template(config, tmp_path)
    assert not config.parameters
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    with pytest.raises(ArtefactError, match=r"tokenizer\.json"):
        add_chat_template(config, tmp_path)
    tokens = [{"id": 1, "content": "<s>", "special": True}, {"id": 2, "content": "word", "special": False}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}))
    add_chat_template(config, tmp_path)
    read = ServedModel.from_config("chatty", config).parameters
    assert read == {CHAT_TEMPLATE: CHATML, CONTROL_TOKENS: ["<s>"]}
    tokens.append({"id": 5, "content": "[TOOL_CALLS]", "special": True})
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}))
    add_chat_template(config, tmp_path)
    assert ServedModel.from_config("chatty", config).parameters[TOOL_CALLS_ID] == 5


@pytest.mark.planted
def test_processes_are_kept_for_the_models_that_were_asked_last(monkeypatch):
    monkeypatch.setattr(chat_templates, "MOST_MODELS", 2)
    started = []
    monkeypatch.setattr(
        bounded_workers, "start_python", lambda *names: started.append(start_python(*names)) or started[-1]
    )

    async def ask(templates):
        for number in (0, 1, 0, 2, 3):
            model = replace(served("{{ messages[0].content }}"), name=f"chatty-{number}")
            assert await templates.render(model, said("hello")) == "hello"

    with closing(ChatTemplates(1 << 20)) as templates:
        asyncio.run(ask(templates))
        assert [process.poll() is None for process, _ in started[-4:]].count(True) <= 2
        assert started[-1][0].poll() is None
