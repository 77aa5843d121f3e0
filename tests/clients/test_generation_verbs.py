"""Texts that are piped in: one that is refused, or bytes that are no text."""

import asyncio
import io
import json
import sys
from types import SimpleNamespace

import pytest

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from clients.answer import Delta
from clients.generation_verbs import generate, lines, print_texts


class Echo:
    """Says what it is told, and refuses an empty text as a server does."""

    model = SimpleNamespace(token_ids_only=False)

    async def stream(self, text, options):
        if not text:
            raise InputError("a text of at least one token", "''", "send some text")
        yield Delta(text=text.upper())


def test_a_line_that_is_refused_stops_none_of_the_others(capsys):
    status = asyncio.run(print_texts(Echo(), ["a", "", "b"], SamplingParams(), json=False))
    said = capsys.readouterr()
    assert (status, said.out) == (2, "A\n\nB\n")
    assert said.err.startswith("error: line 2: expected a text of at least one token")


class Successors:
    """Has no tokenizer, and says the number behind each."""

    model = SimpleNamespace(token_ids_only=True)

    async def stream(self, prompt, options):
        for token in prompt:
            yield Delta(text="", token_ids=(token + 1,))


@pytest.mark.parametrize(("json", "said"), [(False, "6 8 \n"), (True, '"input_ids": [5, 7]')])
def test_a_model_without_a_tokenizer_answers_with_the_numbers_of_its_tokens(json, said, capsys):
    assert asyncio.run(print_texts(Successors(), [(5, 7)], SamplingParams(), json)) == 0
    assert said in capsys.readouterr().out


def test_words_and_tokens_together_are_refused_before_a_server_is_asked():
    with pytest.raises(InputError, match="a prompt in words or by its tokens"):
        generate(prompt=("a",), token_ids=(1,))


def test_lines_may_end_as_on_windows(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\r\nb \n\r\n", newline=""))
    assert lines() == ["a", "b ", ""]


def test_a_log_probability_that_is_none_loses_no_token(capsys):
    class Odd(Echo):
        async def stream(self, text, options):
            yield Delta(text=text, token_ids=(1, 2), logprobs=(-1.0, 1e9))

    assert asyncio.run(print_texts(Odd(), ["a"], SamplingParams(), json=False)) == 0
    assert "36.79%" in (said := capsys.readouterr().out) and "100.00%" in said


def test_log_probabilities_and_bytes_of_tokens_are_json(capsys):
    class Known(Echo):
        async def stream(self, text, options):
            tops = {"top_logprobs": (((1, -1.0),), ((2, -0.5),)), "top_bytes": ((b"a",), (b"\xff",))}
            yield Delta(text=text, token_ids=(1, 2), logprobs=(float("nan"), -0.5), token_bytes=(b"a", b"\xff"), **tops)

    assert asyncio.run(print_texts(Known(), ["a"], SamplingParams(), json=True)) == 0
    said = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (said["logprobs"], said["token_bytes"]) == ([None, -0.5], [[97], [255]])


def test_words_that_are_no_utf_8_are_refused_before_a_server_is_asked():
    with pytest.raises(InputError, match="words in UTF-8"):
        generate(("a\udcff",))


def test_a_single_text_that_is_refused_is_the_verbs_error():
    with pytest.raises(InputError, match="at least one token"):
        asyncio.run(print_texts(Echo(), [""], SamplingParams(), json=False))


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_standard_input_that_is_no_utf_8_is_refused_in_one_line(errors, monkeypatch):
    piped = io.TextIOWrapper(io.BytesIO(b"ok\n\xff\xfe\n"), encoding="utf-8", errors=errors)
    monkeypatch.setattr(sys, "stdin", piped)
    with pytest.raises(InputError, match="standard input in UTF-8"):
        lines()
