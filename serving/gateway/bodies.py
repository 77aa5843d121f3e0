"""Bodies of JSON: bounded in bytes, depth and number of values before anything is made of them, and whole Unicode.

Lone surrogates, NaN and nesting beyond 200 levels are refused by the parser, which is pydantic's own.
"""

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from attendant.errors import InputError
from serving.gateway.errors import RefusedError

JSON = "application/json"
MOST_VALUES = 1 << 17
MOST_FIELDS = 1 << 12


class JsonRoute(APIRoute):
    """A route whose body is read and parsed here, and not by FastAPI; it may have ``settings.text_bytes``."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            request = _JsonRequest(request.scope, request.receive)
            body = await request.body()
            if body and _is_json(request):
                request.parsed = parse_json(body)
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


def parse_json(data: bytes | str) -> Any:
    """What a text of JSON says.

    Raises:
        InputError: it is none, it is too deep, it has too many values, or a text in it holds half a character.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if data.count(b",") >= MOST_VALUES:  # those within texts are counted as well, which is no matter at such a number
        raise InputError(f"JSON of at most {MOST_VALUES} values", "more commas than that", "send less at a time")
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        place = _place_of_surrogate(data)
        if place is None:
            raise InputError("a body of JSON", str(error), "correct it") from error
        found = f"half of a surrogate pair in {place}" if place else "half of a surrogate pair"
        raise InputError("texts of whole Unicode characters", found, "send both halves", param=place) from error
    if data.count(b":") > MOST_FIELDS:
        for names, found in _walk(value):
            if isinstance(found, dict) and len(found) > MOST_FIELDS:
                raise InputError(
                    f"at most {MOST_FIELDS} fields in an object", str(len(found)), "send fewer", param=_join(names)
                )
    return value


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def _place_of_surrogate(data: bytes) -> str | None:
    try:
        value = json.loads(data)  # which lets them pass
    except (ValueError, RecursionError):
        return None
    for place, found in _walk(value):
        texts = found if isinstance(found, dict) else (found,)
        if any(isinstance(text, str) and not _is_whole(text) for text in texts):
            return _join(place)
    return None


def _walk(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    rest: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while rest:
        place, one = rest.pop()
        yield place, one
        if isinstance(one, dict):
            rest += [((*place, name), part) for name, part in one.items()]
        elif isinstance(one, list):
            rest += [((*place, str(number)), part) for number, part in enumerate(one)]


def _join(place: tuple[str, ...]) -> str:
    return ".".join(place)


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
