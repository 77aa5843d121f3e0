"""Requests about an image: JSON with the image in base64, or a multipart form with it as the file ``image``."""

import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from attendant.errors import InputError
from serving.gateway.bodies import JSON, parse_json
from serving.gateway.errors import RefusedError
from serving.gateway.images import bytes_of_base64

Body = TypeVar("Body", bound=BaseModel)
FORM = "multipart/form-data"
IMAGE = "image"
MOST_FIELDS = 64


async def read_upload(request: Request, schema: type[Body]) -> tuple[Body, bytes]:
    """The body of a request, and the bytes of the image.

    Args:
        request: of either kind.
        schema: of its JSON form, with a field ``image``.

    Raises:
        RequestValidationError: a field is missing, unknown or wrong.
        InputError: the image is no base64, or the form is not in UTF-8.
        RefusedError: it is of neither kind.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        body = _validate(schema, parse_json(await request.body()))
        return body, bytes_of_base64(getattr(body, IMAGE))
    if kind == FORM:
        _require_utf8(request.headers["content-type"])
        async with _read_form(request) as form:
            twice = len(form.multi_items()) - len(form)
            if twice:
                raise InputError("each field of the form once", f"{twice} more", "send each once")
            file = form.get(IMAGE)
            if not isinstance(file, UploadFile):
                raise InputError(f"a file named {IMAGE!r} in the form", "none", "send one")
            fields = {name: _value(str(value), schema, name) for name, value in form.items() if name != IMAGE}
            return _validate(schema, {**fields, IMAGE: ""}), await file.read()
    raise RefusedError(415, f"expected {JSON} or {FORM}; found {kind or 'no content type'}; send one of them")


def upload_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI's description of both kinds, for ``openapi_extra``."""
    own = schema.model_json_schema(ref_template="#/components/schemas/{model}")
    properties = {name: value for name, value in own["properties"].items() if name != IMAGE}
    form = {
        "type": "object",
        "required": own["required"],
        "properties": {**properties, IMAGE: {"type": "string", "format": "binary"}},
        "additionalProperties": False,
    }
    return {"requestBody": {"required": True, "content": {JSON: {"schema": own}, FORM: {"schema": form}}}}


class _InMemory(MultiPartParser):
    spool_max_size = sys.maxsize  # a body is bounded, and there may be no room for a temporary file


@asynccontextmanager
async def _read_form(request: Request) -> AsyncIterator[FormData]:
    try:
        async with aclosing(request.stream()) as stream:
            form = await _InMemory(request.headers, stream, max_files=1, max_fields=MOST_FIELDS).parse()
    except MultiPartException as error:
        raise RefusedError(400, error.message) from error
    try:
        yield form
    finally:
        await form.close()


def _require_utf8(content_type: str) -> None:
    # Any of Python's codecs would be taken otherwise, some of which take quadratic time.
    name = parse_options_header(content_type)[1].get(b"charset", b"utf-8")
    if name.lower() not in (b"utf-8", b"utf8"):
        raise InputError("a form in UTF-8", f"the charset {name.decode(errors='replace')!r}", "leave the charset out")


def _value(text: str, schema: type[BaseModel], name: str) -> Any:
    # A form knows text alone: what is no string in the schema is read as JSON.
    field = schema.model_fields.get(name)
    if field is None or field.annotation in (str, str | None):
        return text
    try:
        return parse_json(text)
    except InputError:
        return text


def _validate(schema: type[Body], value: Any) -> Body:
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_input=False)) from error
