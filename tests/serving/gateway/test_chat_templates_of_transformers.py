"""Chats as transformers writes them: ``apply_chat_template`` is asked the same."""

import json

import pytest
from transformers import PreTrainedTokenizerFast

from attendant.tokenizer import RenderedText, Tokenizer
from serving.gateway.chat_templates import SPECIAL_TOKENS
from tests.serving.gateway.test_chat_templates import render_messages, served, templates  # noqa: F401  (fixtures)
from tests.text_checkpoints import byte_level_bpe

SPECIALS = {"bos_token": "<s>", "eos_token": "</s>"}
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<s>' + m.role + '\n' + m['content'] + '</s>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}",
    "hermes": "{%- if tools is not none and tools %}{{ tools | tojson }}{% endif %}{%- if documents is none %}"
    "none{% endif %}{%- for m in messages %}\n    {{- bos_token ~ m.content | trim ~ eos_token }}\n{%- endfor %}",
    "training": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}"
    "{% endgeneration %}{% else %}[{{ m.role }}] {{ m.content }} {% endif %}{% endfor %}",
    "json": "{{ messages | tojson(indent=2, sort_keys=true) }}|{{ messages[0] | tojson(separators=(',', ':')) }}|"
    "{{ messages | tojson(ensure_ascii=true) }}",
    "llama2": "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}"
    "{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if loop.index0 == 0 and system is defined %}"
    "{{ bos_token + '[INST] <<SYS>>' + system + '<</SYS>>' + m.content + ' [/INST]' }}{% elif m.role == 'user' %}"
    "{{ bos_token + '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}"
    "{% endfor %}",
    "loops": "{% set ns = namespace(last='') %}{% for m in messages %}{% if m.role == 'system' %}"
    "{% continue %}{% endif %}{% set ns.last = m.content %}{% if loop.last %}{% break %}{% endif %}"
    "{{ m.content }}\n{% endfor %}{{ ns.last }}"
    "{{ '%A' | length }}{{ strftime_now('%%') }}",
}
HELLO = {"role": "user", "content": "Hello, naïve 日本 😀"}
CONVERSATIONS = {
    "one": [HELLO],
    "system": [{"role": "system", "content": 'Be <brief> & "kind".'}, HELLO],
    "answered": [HELLO, {"role": "assistant", "content": "  Yes?\n"}, {"role": "user", "content": "No."}],
    "empty": [{"role": "user", "content": ""}],
    "lines": [{"role": "user", "content": "a\n\n  b\t{{ c }} {% d %}"}, {"role": "assistant", "content": "e"}],
}


@pytest.mark.planted
@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_has_the_text_and_the_tokens_that_transformers_gives_it(name, conversation, render_messages):  # noqa: F811
    library, messages = byte_level_bpe(), CONVERSATIONS[conversation]
    library.add_special_tokens(list(SPECIALS.values()))
    theirs = PreTrainedTokenizerFast(tokenizer_object=library, **SPECIALS, chat_template=TEMPLATES[name])
    model = served(TEMPLATES[name], **{SPECIAL_TOKENS: json.loads(json.dumps(SPECIALS))})
    prompt = render_messages(model, messages)
    asked = {"conversation": messages, "add_generation_prompt": True}
    assert prompt == theirs.apply_chat_template(**asked, tokenize=False)
    ids = theirs.apply_chat_template(**asked, tokenize=True, return_dict=True)["input_ids"]
    if ids:
        assert Tokenizer(library).encode(RenderedText(prompt), 9999) == ids
