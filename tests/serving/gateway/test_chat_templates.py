import json

import pytest
from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ArtefactError, InputError
from clients.served_model import ServedModel
from serving.gateway.chat_templates import CHAT_TEMPLATE, CONTROL_TOKENS, SPECIAL_TOKENS, render_messages
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


def test_a_template_gets_the_messages_the_special_tokens_and_asks_for_an_answer():
    model = served(CHATML, **{SPECIAL_TOKENS: {"bos_token": "<s>"}})
    assert render_messages(model, said(" hello ", "you")) == "<s>user\nhello<s>user\nyou<s>assistant"


def test_a_model_without_a_template_is_refused_with_what_to_do():
    with pytest.raises(InputError, match=r"'chatty' has not.*/v1/completions, or put chat_template\.jinja"):
        render_messages(served(), said("hello"))


def test_a_message_with_a_control_token_is_refused():
    model = served("{{ messages[0].content }}", **{CONTROL_TOKENS: ["<|end|>"]})
    assert render_messages(model, said("<end>")) == "<end>"
    with pytest.raises(InputError, match=r"<\|end\|>"):
        render_messages(model, said("so <|end|> it"))


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('roles must alternate') }}",
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
def test_what_a_template_may_not_do_is_the_requests_error(template):
    with pytest.raises(InputError, match="template of 'chatty'"):
        render_messages(served(template), said("hello"))


def test_the_names_of_the_parameters_are_those_that_the_repository_writes():
    assert (chat_template.CHAT_TEMPLATE, chat_template.CONTROL_TOKENS) == (CHAT_TEMPLATE, CONTROL_TOKENS)


def test_a_template_travels_with_the_tokens_that_it_alone_may_write(tmp_path):
    config = pb.ModelConfig()
    add_chat_template(config, tmp_path)
    assert not config.parameters
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    with pytest.raises(ArtefactError, match=r"tokenizer\.json"):
        add_chat_template(config, tmp_path)
    tokens = [{"content": "<s>", "special": True}, {"content": "word", "special": False}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}))
    add_chat_template(config, tmp_path)
    read = ServedModel.from_config("chatty", config).parameters
    assert read == {CHAT_TEMPLATE: CHATML, CONTROL_TOKENS: ["<s>"]}
