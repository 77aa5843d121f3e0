"""The environment in which chat templates are written: Jinja2's sandbox with the functions of transformers.

Source: Hugging Face transformers, ``chat_template_utils.py``: its functions, filters and tags.
"""

import json
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Filter, Node, Scope
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST_TEMPLATE = 1 << 20
"""Characters; of models that are published the longest has some 20 thousand."""


class MessagesRefusedError(TemplateError):
    """What a template raises on purpose, of messages that it cannot write."""


class _Generation(Extension):
    """``{% generation %}``: it marks what a model says, for those who train it, and changes no text."""

    tags = {"generation"}  # noqa: RUF012  as jinja2 declares it

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        return Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def create_environment() -> ImmutableSandboxedEnvironment:
    """A new environment; to compile a template in it may run parts of that."""
    extensions = [_Generation, loopcontrols]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


def template_fault(template: str) -> str:
    """Why a template cannot be read, with the line; empty if it can be. Nothing of it runs."""
    if len(template) > LONGEST_TEMPLATE:
        return f"{len(template)} characters, more than {LONGEST_TEMPLATE}"
    environment = create_environment()
    try:
        unknown = [one for one in environment.parse(template).find_all(Filter) if one.name not in environment.filters]
    except TemplateSyntaxError as error:
        return f"{error.message}, in line {error.lineno}"
    except RecursionError:
        return "expressions nested too deep"
    return f"no filter named {unknown[0].name!r}, in line {unknown[0].lineno}" if unknown else ""


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise MessagesRefusedError(message)
