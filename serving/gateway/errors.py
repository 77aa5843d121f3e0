"""Every failure as OpenAI's API says it: ``{"error": {"message", "type", "param", "code"}}`` and a status.

InputError         400 invalid_request_error      LateError          504 timeout_error
UnknownNameError   404 not_found_error            UnreachableError   503 server_error
BusyError          429 rate_limit_error           ServerError        502 server_error
DeadlineError      408 timeout_error              LoadingError       503 server_error
anything else      500 server_error               LostError          503 server_error
                                                  MemoryError        503 server_error
"""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from attendant.errors import (
    AttendantError,
    BusyError,
    CancelledError,
    DeadlineError,
    InputError,
    LateError,
    LoadingError,
    LostError,
    ServerError,
    UnknownNameError,
    UnreachableError,
)
from attendant.tensor_names import INPUT_IDS, TEXT_INPUT

RETRY_AFTER_S = "1"
GONE = 499
"""The status of a client that did not wait, as nginx has it."""
INVALID = "invalid_request_error"
_KINDS: tuple[tuple[type[AttendantError], int, str], ...] = (
    (InputError, 400, INVALID),
    (UnknownNameError, 404, "not_found_error"),
    (LoadingError, 503, "server_error"),
    (LostError, 503, "server_error"),
    (BusyError, 429, "rate_limit_error"),
    (DeadlineError, 408, "timeout_error"),
    (CancelledError, GONE, "cancelled"),
    (LateError, 504, "timeout_error"),
    (UnreachableError, 503, "server_error"),
    (ServerError, 502, "server_error"),
)
_OF_STATUS = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", "foreign_origin"),
    404: ("not_found_error", "not_found"),
    405: (INVALID, "method_not_allowed"),
    408: ("timeout_error", "body_late"),
    413: (INVALID, "too_large"),
    421: (INVALID, "unknown_host"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
}
_MESSAGES = dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "expected an object") | {
    "extra_forbidden": "a field that is not supported"
}
"""Where pydantic's words are about Python."""
MOST_CHARACTERS = 2000
"""Of a message or of the name of a field, which may repeat what a request says."""


class RefusedError(Exception):
    """A request that the gateway itself refuses.

    Attributes:
        status: of the response.
        message: in words.
        param: which field is meant, if one is.
        headers: of the response.
    """

    def __init__(
        self, status: int, message: str, param: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.headers = status, message, param, headers or {}


_FIELDS = {"/v1/completions": "prompt", "/v1/chat/completions": "messages", "/tokenize": "prompt"}
"""Path → the field that holds the text; of other routes it is ``input``."""


def body_of(error: Exception, path: str = "") -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers of the response to a failure.

    Args:
        error: the failure.
        path: of the request, by which a model's tensor is known as a field.
    """
    if isinstance(error, RefusedError):
        kind, code = _OF_STATUS.get(error.status, (INVALID, "invalid_value"))
        return error.status, _body(error.message, kind, error.param, code), error.headers
    if isinstance(error, ClientDisconnect):  # in the midst of its body
        error = CancelledError("a client that waits", "it disconnected", "stay connected")
    if isinstance(error, MemoryError):
        message = "expected memory for the request; found too little; send less at once, or retry later"
        return 503, _body(message, "server_error", None, "overloaded"), {"Retry-After": RETRY_AFTER_S}
    for of, status, kind in _KINDS:
        if isinstance(error, of):
            headers = {"Retry-After": RETRY_AFTER_S} if status in (429, 503) else {}
            param = _FIELDS.get(path, "input") if path and error.param in (TEXT_INPUT, INPUT_IDS) else error.param
            return status, _body(str(error), kind, param or None, error.code), headers
    logging.getLogger(__name__).error("an unexpected failure", exc_info=error)
    return 500, _body("an unexpected failure of the gateway; its log says more", "server_error", None, "internal"), {}


def install(app: FastAPI) -> None:
    """Let an application answer every failure so."""
    app.add_exception_handler(RequestValidationError, _handle_invalid)
    app.add_exception_handler(HTTPException, _handle_http)
    for kind in (AttendantError, RefusedError, MemoryError, Exception):
        app.add_exception_handler(kind, _handle_failure)


async def _handle_failure(request: Request, error: Exception) -> JSONResponse:
    status, body, headers = body_of(error, request.url.path)
    return JSONResponse(body, status, headers)


async def _handle_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = _best(error.errors())
    param = ".".join(_place(found["loc"], error.body)) or None
    message = _MESSAGES.get(found["type"], found["msg"].removeprefix("Value error, "))
    return JSONResponse(_body(f"{param}: {message}" if param else message, INVALID, param, found["type"]), 400)


def _best(errors: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of a field that may be of several kinds, each with its error, that of the kind which was meant.

    Which is one that was read further than to its type, and the deepest of these.
    """
    rivals = [one for one in errors if one["loc"][:2] == errors[0]["loc"][:2]]
    best = max(rivals, key=lambda one: (not one["type"].endswith("_type"), len(one["loc"])))
    kinds = [one for one in rivals if one["type"] == "literal_error" and len(one["loc"]) == len(best["loc"])]
    if best["type"] == "literal_error" and len({one["loc"][-1] for one in kinds}) == 1:
        known = dict.fromkeys(one["ctx"]["expected"] for one in kinds)
        return {**best, "msg": f"Input should be {' or '.join(known)}"}
    return best


def _place(place: Sequence[str | int], body: Any) -> list[str]:
    """The fields of a body on the way to an error, without pydantic's names of the kinds that a field may be of."""
    found = list[str]()
    for index, part in enumerate(place):
        if index == 0 and part in ("body", "query"):
            continue
        is_inside = isinstance(part, int) if isinstance(body, list) else isinstance(body, dict) and part in body
        if is_inside:
            body = body[part]
        if is_inside or body is None or (isinstance(body, dict) and index == len(place) - 1):  # which it lacks
            found.append(str(part))
    return found


async def _handle_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind, code = _OF_STATUS.get(error.status_code, (INVALID, "invalid_value"))
    message = str(error.detail)
    if message == HTTPStatus(error.status_code).phrase:  # the router's, which knows no more
        allowed = (error.headers or {}).get("Allow", "")
        expected = f"{request.url.path} takes {allowed}" if allowed else f"no route {request.url.path}"
        message = f"{expected}; found {request.method}; GET /openapi.json lists the routes"
    return JSONResponse(_body(message, kind, None, code), error.status_code, error.headers)


def _body(message: str, kind: str, param: str | None, code: str) -> dict[str, Any]:
    message, param = _cut(message), _cut(param) if param else param
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _cut(text: str) -> str:
    # A response is UTF-8, which half of a surrogate pair has no place in.
    text = text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " …"
    return text.encode(errors="replace").decode()
