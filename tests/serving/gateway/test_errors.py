import json

import pytest
from starlette.requests import ClientDisconnect

from attendant.errors import (
    BusyError,
    CancelledError,
    DeadlineError,
    InputError,
    LateError,
    ServerError,
    UnknownNameError,
    UnreachableError,
    of_param,
)
from attendant.tensor_names import INPUT_IDS, TEXT_INPUT
from serving.gateway.errors import body_of


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (InputError, 400),
        (UnknownNameError, 404),
        (DeadlineError, 408),
        (BusyError, 429),
        (CancelledError, 499),
        (ServerError, 502),
        (UnreachableError, 503),
        (LateError, 504),
    ],
)
def test_each_kind_of_failure_has_its_status_and_keeps_its_words(kind, status):
    found, body, headers = body_of(kind("top_k of at least 0", "-1", "correct it", param="top_k"))
    assert (found, body["error"]["param"]) == (status, "top_k")
    assert body["error"]["code"] == kind.code
    assert body["error"]["message"] == "expected top_k of at least 0; found -1; correct it"
    assert ("Retry-After" in headers) == (status in (429, 503))


def test_a_client_that_leaves_in_the_midst_of_its_body_is_no_failure_of_ours(caplog):
    assert body_of(ClientDisconnect())[0] == 499 and not caplog.records


def test_a_message_is_bounded_and_can_be_sent_whatever_it_repeats():
    _, body, _ = body_of(InputError("a text", "\ud800" * 10**6, "correct it", param="a" * 10**6))
    assert len(json.dumps(body, ensure_ascii=False).encode()) < 5000


def test_an_unexpected_failure_tells_strangers_nothing(caplog):
    status, body, _ = body_of(ValueError("a secret"))
    assert status == 500 and "secret" not in str(body) and "a secret" in caplog.text


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/v1/completions", "prompt"),
        ("/v1/chat/completions", "messages"),
        ("/tokenize", "prompt"),
        ("/v1/translate", "input"),
        ("/v1/embeddings", "input"),
        ("", TEXT_INPUT),
    ],
)
def test_a_text_is_called_by_the_field_that_brought_it(path, param):
    for tensor in (TEXT_INPUT, INPUT_IDS):
        error = InputError("a text", "none", "send one", param=tensor)
        assert body_of(error, path)[1]["error"]["param"] == (param if path else tensor)
    assert body_of(InputError("x", "y", "z", param="top_k"), path)[1]["error"]["param"] == "top_k"


def test_an_error_keeps_the_param_that_it_names():
    for own, found in (("", "text_input"), ("seed", "seed")):
        with pytest.raises(InputError) as refused, of_param("text_input"):
            raise InputError("x", "y", "z", param=own)
        assert refused.value.param == found


def test_a_lack_of_memory_is_a_refusal_that_may_be_tried_again(caplog):
    status, body, headers = body_of(MemoryError())
    assert (status, headers, caplog.records) == (503, {"Retry-After": "1"}, [])
    assert "send less at once" in body["error"]["message"]
