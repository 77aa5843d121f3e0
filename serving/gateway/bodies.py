"""Bodies of JSON: bounded in bytes, depth and number of values before anything is made of them, and whole Unicode.

Lone surrogates, NaN and nesting beyond 200 levels are refused by the parser, which is pydantic's own.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from attendant.errors import InputError
from serving.gateway.errors import RefusedError

JSON = "application/json"
MOST_VALUES = 1 << 17
MOST_FIELDS = 1 << 12
_KINDS = {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}


class JsonRoute(APIRoute):
    """A route whose body is read and parsed here, and not by FastAPI; it may have ``settings.text_bytes``."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            request = _JsonRequest(request.scope, request.receive)
            body = await request.body()
            if request.method == "POST":
                request.parsed = _parse_object(request, body)
            return await handle(request)

        return handle_json


class _JsonRequest(Request):
    parsed: Any = None

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            most = self.app.state.gateway.settings.text_bytes
            body = bytearray()
            async for chunk in self.stream():
                body += chunk
                if len(body) > most:
                    raise RefusedError(413, f"expected a body without an image of at most {most} bytes; found more")
            self._body = bytes(body)
        return self._body

    async def json(self) -> Any:
        return self.parsed


def parse_json(data: bytes | str, most_values: int = MOST_VALUES) -> Any:
    """What a text of JSON says.

    Args:
        data: the text.
        most_values: that it may have.

    Raises:
        InputError: it is none, it is too deep, it has too many values, or a text in it holds half a character.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    for sign, kind in ((b",", "commas"), (b"[", "lists"), (b"{", "objects")):
        if data.count(sign) >= most_values:  # those within texts count as well, which is no matter at such a number
            raise InputError(f"JSON of at most {most_values} values", f"more {kind} than that", "send less at a time")
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        place = _place_of_surrogate(data)
        if place is None:
            raise InputError("a body of JSON", str(error), "correct it") from error
        found = f"half of a surrogate pair in {place}" if place else "half of a surrogate pair"
        raise InputError("texts of whole Unicode characters", found, "send both halves", param=place) from error
    if data.count(b":") > MOST_FIELDS:
        for one in _walk(value):
            if isinstance(one.value, dict) and len(one.value) > MOST_FIELDS:
                expected, count = f"at most {MOST_FIELDS} fields in an object", str(len(one.value))
                raise InputError(expected, count, "send fewer", param=_path_of(one))
    return value


def _parse_object(request: Request, body: bytes) -> dict[str, Any]:
    if body and not _is_json(request):
        found = request.headers.get("content-type") or "none"
        raise RefusedError(415, f"expected Content-Type: {JSON}; found {found}; send that header with the body")
    value = parse_json(body) if body else None
    if not isinstance(value, dict):
        found = "no body" if not body else _KINDS.get(type(value), "a number")
        raise InputError("an object of JSON", found, 'send one, as {"model": …}')
    return value


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def _place_of_surrogate(data: bytes) -> str | None:
    try:
        value = json.loads(data)  # which lets them pass
    except (ValueError, RecursionError):
        return None
    if not _is_whole(value):
        return ""
    for place in _walk(value):
        for name, part in _parts_of(place.value):
            if not _is_whole(name):
                return _path_of(place)
            if not _is_whole(part):
                return _path_of(_Place(part, name, place))
    return None


class _Place(NamedTuple):
    value: dict[str, Any] | list[Any]
    name: str | int
    parent: "_Place | None"


def _walk(value: Any) -> Iterator[_Place]:
    # Objects and lists, each with a link to its parent: whole paths would be a copy of the depth for every value.
    rest = [_Place(value, "", None)] if isinstance(value, dict | list) else []
    while rest:
        place = rest.pop()
        yield place
        rest += [_Place(part, name, place) for name, part in _parts_of(place.value) if isinstance(part, dict | list)]


def _parts_of(value: dict[str, Any] | list[Any]) -> Iterable[tuple[str | int, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value)


def _path_of(place: _Place) -> str:
    names: list[str] = []
    while place.parent is not None:
        names.append(str(place.name))
        place = place.parent
    return ".".join(reversed(names))


def _is_whole(value: Any) -> bool:
    try:
        return not isinstance(value, str) or bool(value.isascii() or value.encode())
    except UnicodeEncodeError:
        return False
