"""What an answer must look like: OpenAI's ``response_format``, and the names that vLLM has for more than that.

Source: vLLM, ``StructuredOutputsParams``; its older fields ``guided_json``, ``guided_regex``, … mean the same.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from attendant.errors import InputError
from attendant.sampling_params import PARAMS
from serving.gateway.schemas.base import Strict

MOST_CHOICES = 1024
Guide = Annotated[str, Field(max_length=PARAMS["grammar"].max_length)]
Choices = Annotated[list[str], Field(min_length=1, max_length=MOST_CHOICES, fail_fast=True)]
Schema = dict[str, Any] | bool | Guide


class JsonSchema(Strict):
    """A JSON schema that an answer must keep to."""

    name: str = ""
    description: str | None = None
    schema_: dict[str, Any] = Field(
        alias="schema", description=f"as JSON of at most {PARAMS['json_schema'].max_length} characters"
    )
    strict: bool | None = None


class ResponseFormat(Strict):
    """What an answer must look like."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StructuredOutputs(Strict):
    """The same as vLLM has it; one of them."""

    json_: Schema | None = Field(default=None, alias="json", description="a JSON schema")
    json_object: bool | None = None
    regex: Guide | None = Field(default=None, description="which the answer matches as a whole")
    choice: Choices | None = Field(default=None, description="texts, of which the answer is one")
    grammar: Guide | None = Field(default=None, description="Lark's, as llguidance reads it, or GBNF")


class StructureFields(Strict):
    """The fields of requests that say it."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Schema | None = Field(default=None, description="as structured_outputs.json")
    guided_regex: Guide | None = Field(default=None, description="as structured_outputs.regex")
    guided_choice: Choices | None = Field(default=None, description="as structured_outputs.choice")
    guided_grammar: Guide | None = Field(default=None, description="as structured_outputs.grammar")

    def structure(self) -> dict[str, Any]:
        """The same as a parameter of :class:`SamplingParams`, if any.

        Raises:
            InputError: more than one is said, or a schema that no JSON can say.
        """
        outputs = self.structured_outputs or StructuredOutputs()
        said = [
            *self._format(),
            *(("json_schema", dump_schema(one)) for one in (outputs.json_, self.guided_json) if one is not None),
            *(("regex", one) for one in (outputs.regex, self.guided_regex) if one is not None),
            *(("grammar", one) for one in (outputs.grammar, self.guided_grammar) if one is not None),
            *(("grammar", _grammar_of(one)) for one in (outputs.choice, self.guided_choice) if one is not None),
        ]
        if outputs.json_object:
            said.append(("json_object", True))
        if len(said) > 1:
            found = ", ".join(name for name, _ in said)
            raise InputError("one structure of an answer", found, "leave the others out", param="structured_outputs")
        return dict(said)

    def _format(self) -> list[tuple[str, Any]]:
        form = self.response_format
        if form is None or form.type == "text":
            return []
        if form.type == "json_object":
            return [("json_object", True)]
        if form.json_schema is None:
            raise InputError("json_schema beside the type of response_format", "none", "send the schema")
        return [("json_schema", dump_schema(form.json_schema.schema_))]


def dump_schema(schema: dict[str, Any] | bool | str) -> str:
    """A schema as a text of JSON; a text is one already.

    Raises:
        InputError: it holds a number that is not finite, or is too deep.
    """
    if isinstance(schema, str):
        return schema
    try:
        return json.dumps(schema, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise InputError(
            "a JSON schema of finite numbers", str(error), "correct it", param="response_format"
        ) from error


def _grammar_of(choices: list[str]) -> str:
    # One terminal: as many rules would be as many items of the parser at once, which are bounded. It takes no DEL.
    texts = (json.dumps(choice, ensure_ascii=False).replace("\x7f", "\\u007f") for choice in choices)
    return "start: CHOICE\nCHOICE: " + " | ".join(texts)
