import inspect
import json
import multiprocessing
import pickle
import re
from urllib.parse import quote

import pytest

from attendant import errors
from attendant.errors import AttendantError, InputError, UserError, error_from_json, status_message

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
every_class = pytest.mark.parametrize("kind", CLASSES)
PRINTABLE = "".join(chr(code) for code in range(32, 127) if code != ord("%"))
"""What gRPC writes as it is into a status's message."""
PARTS = ("a number", "'seven'", "write a number")


def raise_in_another_process(kind):
    raise kind(*PARTS)


@every_class
def test_a_message_says_what_was_expected_what_was_found_and_what_to_do(kind):
    error = kind(*PARTS)
    assert str(error) == "expected a number; found 'seven'; write a number"
    assert (error.expected, error.found, error.remedy) == PARTS


@every_class
def test_a_users_mistake_ends_with_2_and_a_failure_with_1(kind):
    assert kind(*PARTS).exit_status == (2 if issubclass(kind, UserError) else 1)


@every_class
def test_an_error_survives_pickling(kind):
    copy = pickle.loads(pickle.dumps(kind(*PARTS)))  # noqa: S301  (our own bytes)
    assert type(copy) is kind
    assert (copy.expected, copy.found, copy.remedy, str(copy)) == (*PARTS, str(kind(*PARTS)))


def test_an_error_crosses_from_one_process_to_another():
    with (
        multiprocessing.get_context("forkserver").Pool(1) as pool,
        pytest.raises(errors.ConfigError, match="expected a number; found 'seven'") as caught,
    ):
        pool.apply(raise_in_another_process, (errors.ConfigError,))
    assert caught.value.remedy == "write a number"


def test_the_tree_in_the_docstring_is_the_tree_of_classes():
    drawn = re.findall(r"^    ([│ ├└─]*)(\w+Error)\b", errors.__doc__, flags=re.MULTILINE)
    parents = {}
    path = []
    for branch, name in drawn:
        path = [*path[: len(branch) // 4], name]
        parents[name] = path[-2] if len(path) > 1 else "Exception"
    assert parents == {kind.__name__: kind.__base__.__name__ for kind in CLASSES}
    assert parents["AttendantError"] == "Exception"


@every_class
def test_an_error_comes_back_from_its_record(kind):
    error = kind(*PARTS, param="top_k", message="top_k must be a number")
    copy = error_from_json(json.loads(json.dumps(error.to_json())))
    assert type(copy) is kind and copy.to_json() == error.to_json()
    assert str(copy) == "top_k must be a number" and copy.param == "top_k"


def test_every_kind_has_a_code_of_its_own():
    assert len({kind.code for kind in CLASSES}) == len(CLASSES)


def test_a_record_of_an_unknown_code_is_a_failure_of_the_server():
    assert type(error_from_json({"code": "of a later version", "found": 3})) is errors.ServerError


@every_class
def test_every_error_is_caught_by_the_one_root(kind):
    assert issubclass(kind, AttendantError)


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "\ufffd" * 1700, "\n" * 9000, "%" * 9000, "\U0001f600" * 2000, "\\" * 9000]
)
def test_an_error_that_repeats_a_request_fits_the_trailers_of_a_call(text):
    for error in (
        InputError("a text", text, text),
        KeyError(text),
        ValueError(text),
        InputError(text, "", "", message=text),
    ):
        said = status_message(error)
        assert len(quote(said, safe=PRINTABLE)) < 8000  # gRPC takes 8 KiB in all
    assert error_from_json(json.loads(said)).code == "invalid_value"


def test_a_short_error_is_said_as_it_is():
    error = InputError("a word of the vocabulary é", "'ü'", "write another")
    assert json.loads(status_message(error)) == error.to_json()
    assert status_message(ValueError("no")) == "no"
