"""Every option of decoding, from a client's words to the answer of a real server."""

import asyncio
import json
import re

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from clients.generate import Generator
from clients.translate import Translator
from models.checkpoints.resolve import checkpoint_named
from tests.conftest import LANGUAGE_MODEL
from tests.end_to_end.asking import ask, python_m
from tests.text_checkpoints import CAPACITY, OTHER_PROMPT, PROMPT

HOT = {"temperature": 1.0, "max_tokens": 12, "ignore_eos": True}
SCHEMA = '{"type": "object", "properties": {"a": {"enum": [1, 22]}}, "required": ["a"], "additionalProperties": false}'


@pytest.fixture(scope="module")
def tokenizer(language_model):
    return Tokenizer.from_file(str(language_model / "tokenizer.json"))


@pytest.fixture(scope="module")
def logprobs_of(language_model, tokenizer):
    """From a prompt and the tokens of an answer to the eager model's log-probabilities behind each, ``[T, V]``."""
    model = checkpoint_named(Manifest.read(language_model).source).model

    @torch.no_grad()
    def logprobs(prompt, tokens):
        ids = tokenizer.encode(prompt).ids
        logits_TV = model(torch.tensor([[*ids, *tokens]]))[0].double()
        return logits_TV.log_softmax(-1)[len(ids) - 1 : -1].numpy()

    return logprobs


def answers(server, question=PROMPT, **options):
    async def asked(client):
        return await (await Generator.find(client, LANGUAGE_MODEL)).answers(question, SamplingParams(**options))

    return ask(server, asked)


def answer(server, question=PROMPT, **options):
    (only,) = answers(server, question, **options)
    return only


def test_a_seed_gives_the_same_answer_alone_and_among_others(server):
    alone = answer(server, **HOT, seed=7)

    async def together(client):
        generator = await Generator.find(client, LANGUAGE_MODEL)
        asked = [generator.answers(PROMPT, SamplingParams(**HOT, seed=seed)) for seed in range(30)]
        return await asyncio.gather(*asked)

    others = [one.token_ids for (one,) in ask(server, together)]
    assert others[7] == alone.token_ids
    assert len(set(others)) > 20


def test_without_a_seed_answers_differ(server):
    assert len({answer(server, **HOT).token_ids for _ in range(8)}) > 1


def test_the_largest_seed_is_a_seed(server):
    assert answer(server, **HOT, seed=2**64 - 1) == answer(server, **HOT, seed=2**64 - 1)


@pytest.mark.parametrize(
    "narrow",
    [{"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"temperature": 1e-6}],
    ids=lambda narrow: next(iter(narrow)),
)
def test_a_draw_among_the_most_probable_token_alone_is_greedy(server, narrow):
    greedy = answer(server, max_tokens=12, ignore_eos=True)
    assert answer(server, **(HOT | narrow), seed=3).token_ids == greedy.token_ids


def test_a_draw_among_typical_tokens_is_another_than_among_all(server):
    assert answer(server, **HOT, seed=3, typical_p=0.01).token_ids != answer(server, **HOT, seed=3).token_ids


def test_log_probabilities_are_the_eager_models(server, logprobs_of):
    found = answer(server, **HOT, seed=5, logprobs=True, top_logprobs=4)
    wanted_TV = logprobs_of(PROMPT, found.token_ids)
    assert len(found.token_ids) == 12
    np.testing.assert_allclose(found.logprobs, wanted_TV[np.arange(12), found.token_ids], atol=2e-5)
    for top, wanted_V in zip(found.top_logprobs, wanted_TV, strict=True):
        np.testing.assert_allclose([value for _, value in top], np.sort(wanted_V)[::-1][:4], atol=2e-5)
        np.testing.assert_allclose(wanted_V[[token for token, _ in top]], [value for _, value in top], atol=2e-5)


def test_several_candidates_are_several_answers_each_as_with_its_own_log_probabilities(server, logprobs_of):
    found = answers(server, **HOT, seed=5, n=3, logprobs=True)
    assert len({one.token_ids for one in found}) == 3
    for one in found:
        np.testing.assert_allclose(
            one.logprobs, logprobs_of(PROMPT, one.token_ids)[np.arange(12), one.token_ids], atol=2e-5
        )


def test_beams_come_best_first_with_the_eager_models_score(server, logprobs_of):
    asked = {"max_tokens": 8, "ignore_eos": True}
    beams = answers(server, **asked, beam_width=4, n=4, length_penalty=0.0)
    sums = [logprobs_of(PROMPT, one.token_ids)[np.arange(8), one.token_ids].sum() for one in beams]
    np.testing.assert_allclose([beam.score for beam in beams], sums, atol=1e-4)
    assert sums == sorted(sums, reverse=True) and len({beam.token_ids for beam in beams}) == 4


def test_length_penalty_and_early_stopping_change_which_beams_are_best(server):
    found = {
        answers(server, beam_width=4, length_penalty=penalty, early_stopping=early)[0].token_ids
        for penalty, early in ((-5.0, "yes"), (5.0, "no"), (1.0, "never"))
    }
    assert len(found) > 1


def test_a_stop_text_ends_the_answer_and_is_no_part_of_it(server):
    whole = answer(server, OTHER_PROMPT)
    stop = whole.text[4:7]
    stopped = answer(server, OTHER_PROMPT, stop=("not in it", stop))
    assert stopped.text == whole.text[: whole.text.index(stop)]
    assert stopped.finish_reason == "stop" and len(stopped.token_ids) < len(whole.token_ids)


def test_a_stop_token_ends_the_answer(server):
    whole = answer(server, OTHER_PROMPT)
    stop = whole.token_ids[5]
    stopped = answer(server, OTHER_PROMPT, stop_token_ids=(stop,))
    assert stopped.token_ids == whole.token_ids[: whole.token_ids.index(stop)]
    assert stopped.finish_reason == "stop"


def test_end_tokens_are_ignored_or_put_off_where_asked(server):
    ended = answer(server)
    assert ended.finish_reason == "stop"
    assert answer(server, ignore_eos=True).finish_reason == "length"
    assert len(answer(server, min_tokens=len(ended.token_ids) + 3).token_ids) >= len(ended.token_ids) + 3


def test_penalties_and_biases_change_the_answer(server):
    plain = answer(server, OTHER_PROMPT, max_tokens=12)
    wanted = 77
    assert set(answer(server, OTHER_PROMPT, max_tokens=12, logit_bias={wanted: 100.0}).token_ids) == {wanted}
    forbidden = answer(server, OTHER_PROMPT, max_tokens=12, logit_bias={plain.token_ids[0]: -100.0, 5: 0.5})
    assert plain.token_ids[0] not in forbidden.token_ids
    for penalty in ({"repetition_penalty": 5.0}, {"presence_penalty": 50.0}, {"frequency_penalty": 50.0}):
        found = answer(server, OTHER_PROMPT, **penalty).token_ids
        assert found != answer(server, OTHER_PROMPT).token_ids, penalty
        if "repetition_penalty" not in penalty:
            assert len(set(found)) == len(found), penalty


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_has_the_form_that_was_asked_for(server, tokenizer, seed):
    hot = {"temperature": 1.0, "seed": seed}
    blanks = {tokenizer.token_to_id(blank): -100.0 for blank in "ĠĊčĉ"}  # of which random weights find no end
    assert json.loads(answer(server, **hot, json_schema=SCHEMA, logit_bias=blanks).text)["a"] in (1, 22)
    assert re.fullmatch("(no|yes), [0-9]{3}", answer(server, **hot, regex="(no|yes), [0-9]{3}").text)
    brackets = {tokenizer.token_to_id(bracket): 100.0 for bracket in "[]"}
    nested = answer(server, **hot, json_object=True, logit_bias=brackets, max_tokens=20).text
    assert nested.startswith("{")


def test_an_echo_stands_before_the_answer(server):
    assert answer(server, OTHER_PROMPT, echo=True).text == OTHER_PROMPT + answer(server, OTHER_PROMPT).text


def test_tokens_instead_of_a_text_are_answered_alike(server, tokenizer):
    ids = tokenizer.encode(PROMPT).ids
    assert answer(server, ids, token_counts=True) == answer(server, PROMPT, token_counts=True)
    assert answer(server, np.array(ids), token_counts=True).input_tokens == len(ids)


def test_tokens_of_a_source_are_translated_alike(server, dates_artefact):
    async def both(client):
        translator = await Translator.find(client)
        text = "3rd of march 1997"
        ids = Tokenizer.from_file(str(dates_artefact / "tokenizer.json")).encode(text).ids
        return await translator.answer(ids), await translator.answer(text)

    assert ask(server, both) == ("1997-03-03", "1997-03-03")


def test_token_counts_add_up(server, tokenizer):
    found = answers(server, OTHER_PROMPT, token_counts=True, **HOT, n=2)
    assert [one.input_tokens for one in found] == [len(tokenizer.encode(OTHER_PROMPT).ids)] * 2
    assert [one.output_tokens for one in found] == [len(one.token_ids) for one in found] == [12, 12]


def test_draft_tokens_change_nothing_but_the_speed(server):
    for prompt in (PROMPT, OTHER_PROMPT, "a a a a a a a a"):
        assert answer(server, prompt, num_speculative_tokens=5).token_ids == answer(server, prompt).token_ids


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": -1.0}, "temperature from 0 to 100; found -1"),
        ({"top_p": 0.0}, "top_p above 0"),
        ({"n": 2}, "n of 1 in greedy decoding"),
        ({"top_logprobs": 2}, "top_logprobs together with logprobs"),
        ({"stop_token_ids": (99999,)}, "stop_token_ids"),
        ({"stop": ("",)}, "an empty one"),
        ({"json_schema": "{"}, "a JSON schema"),
        ({"beam_width": 17}, "at most 16 sequences, the slots; found 17"),
        ({"max_tokens": CAPACITY}, "max_tokens from 0 to 31"),
        ({"priority": 2}, "priority from 0 to 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_bad_request_among_good_ones_is_refused_alone_and_with_the_reason(server, options, says):
    unchecked = SamplingParams()
    for name, value in options.items():
        object.__setattr__(unchecked, name, value)  # a client of others refuses nothing

    async def mixed(client):
        generator = await Generator.find(client, LANGUAGE_MODEL)
        asked = [SamplingParams(), unchecked, SamplingParams()]
        return await asyncio.gather(*(generator.answer(PROMPT, one) for one in asked), return_exceptions=True)

    first, error, last = ask(server, mixed)
    assert first == last == answer(server).text
    assert isinstance(error, InputError) and says in str(error), error


def test_the_command_takes_the_options_and_prints_several_answers_apart(server):
    words = ["--server", server.grpc, "--temperature", 1, "--seed", 5, "--n", 2, "--max-tokens", 5]
    told = python_m("clients", "generate", *PROMPT.split(), *words, "--ignore-eos")
    assert told.returncode == 0, told.stderr
    wanted = answers(server, temperature=1.0, seed=5, n=2, max_tokens=5, ignore_eos=True)
    assert told.stdout == "".join(f"[{number}] {one.text}\n" for number, one in enumerate(wanted, 1))


def test_the_command_prints_tokens_and_what_the_model_thought_of_them(server):
    words = ["--server", server.grpc, "--max-tokens", 3, "--logprobs", "--top-logprobs", 2, "--token-counts"]
    told = python_m("clients", "generate", *PROMPT.split(), *words)
    assert told.returncode == 0, told.stderr
    found = answer(server, max_tokens=3, logprobs=True, top_logprobs=2)
    answered, counts, header, *rows = told.stdout.removeprefix(found.text).splitlines()
    assert (answered, counts.split()) == ("", ["9", "tokens", "in,", "3", "out"])
    assert header.split() == ["token", "logprob", "probability", "text"]
    assert [row.split()[:2] for row in rows] == [
        [str(token), f"{value:.4f}"] for token, value in zip(found.token_ids, found.logprobs, strict=True)
    ]
    assert all(
        f"{token}: {value:.4f}" in row
        for row, top in zip(rows, found.top_logprobs, strict=True)
        for token, value in top
    )


def test_the_command_prints_every_answer_with_all_that_is_known_of_it_as_json(server):
    words = [
        "--server",
        server.grpc,
        "--beam-width",
        3,
        "--n",
        2,
        "--max-tokens",
        4,
        "--token-counts",
        "--json",
    ]
    told = python_m("clients", "generate", *PROMPT.split(), *words)
    assert told.returncode == 0, told.stderr
    wanted = answers(server, beam_width=3, n=2, max_tokens=4)
    for number, (line, one) in enumerate(zip(told.stdout.splitlines(), wanted, strict=True)):
        shown = json.loads(line)
        assert shown.pop("score") == pytest.approx(one.score)
        assert shown == {
            "text": PROMPT,
            "candidate": number,
            "answer": one.text,
            "finish_reason": one.finish_reason,
            "token_ids": list(one.token_ids),
            "input_tokens": 9,
            "output_tokens": len(one.token_ids),
        }


def test_the_command_repeats_flags_that_may_be_given_more_than_once(server):
    words = ["--server", server.grpc, "--stop", "never said", "--logit-bias", 77, 100, "--logit-bias", 5, "-1.5"]
    told = python_m("clients", "generate", *PROMPT.split(), *words, "--max-tokens", 2, "--json", "--stop", "nor this")
    assert json.loads(told.stdout)["token_ids"] == [77, 77], told.stderr
