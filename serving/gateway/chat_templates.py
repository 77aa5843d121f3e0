"""Messages → the prompt that a chat model was trained on, by the template that travels with its checkpoint.

Source: Hugging Face transformers, ``chat_template_utils.py``: the environment, its functions and variables.
"""

import json
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from attendant.errors import InputError
from clients.served_model import ServedModel

CHAT_TEMPLATE = "chat_template"
CONTROL_TOKENS = "control_tokens"
SPECIAL_TOKENS = "special_tokens"


def render_messages(model: ServedModel, messages: Sequence[Mapping[str, Any]]) -> str:
    """The prompt.

    Args:
        model: with its template among its parameters.
        messages: each with ``role`` and ``content``, a text.

    Raises:
        InputError: the model has no template, the template refuses the messages, or one holds a control token.
    """
    template = model.parameters.get(CHAT_TEMPLATE)
    if template is None:
        raise InputError(
            f"a model with a chat template, which {model.name!r} has not",
            "messages",
            "send a prompt to /v1/completions, or put chat_template.jinja beside the checkpoint and export it again",
        )
    tokens = model.parameters.get(CONTROL_TOKENS) or []
    # In a rendered prompt a special token is one wherever it stands: whoever wrote one could speak for another role.
    for number, message in enumerate(messages):
        found = [token for token in tokens if token in message["content"]]
        if found:
            expected = f"messages without the model's control tokens in message {number}"
            raise InputError(expected, repr(found[0]), "write it otherwise")
    try:
        prompt = _compile_template(str(template)).render(
            messages=list(messages), add_generation_prompt=True, **(model.parameters.get(SPECIAL_TOKENS) or {})
        )
        prompt.encode()
    except Exception as error:  # whatever a template of others may raise
        raise InputError(f"messages that the template of {model.name!r} takes", str(error), "change them") from error
    return prompt


@lru_cache(maxsize=64)
def _compile_template(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = time.strftime
    return environment.from_string(template)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
