"""The loop that steps: it answers everybody before it ends, and outlives a step and a request that fail."""

import threading
import time
from dataclasses import replace
from multiprocessing import Pipe

import pytest

from attendant.errors import AttendantError, BusyError, InputError, MachineError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from serving.engine import engine_process
from serving.engine.engine_process import MOST_UNTRIED, Ask, Cancel, EngineLoop, Report, receive, send
from serving.engine.sampling import token_guide
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import LanguageModel

PATIENCE_S = 20.0


@pytest.fixture
def model(language_model):
    return LanguageModel(language_model, Manifest.read(language_model), settings=EngineSettings(max_num_seqs=2))


@pytest.fixture
def ask(model):
    """Run the loop; a function that sends messages, and returns what comes of each number until all have ended."""
    ours, theirs = Pipe()
    thread = threading.Thread(target=EngineLoop(model, theirs).run)
    thread.start()

    def exchange(*messages):
        for message in messages:
            send(ours, message)
        parts = {message.number: [] for message in messages if isinstance(message, Ask)}
        while not all(told and (isinstance(told[-1], AttendantError) or told[-1].is_last) for told in parts.values()):
            assert ours.poll(PATIENCE_S)
            message = receive(ours)
            if not isinstance(message, Report):
                for number, output in message:
                    parts[number].append(output)
        return parts

    yield exchange
    send(ours, None)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def request(number, count, tokens=(5, 6), **options):
    params = SamplingParams(max_tokens=count, ignore_eos="regex" not in options, **options)
    return Ask(number=number, subject=list(tokens), options=params)


def count_tokens(parts):
    return sum(len(part.token_ids) for part in parts)


def test_all_are_answered_token_by_token(ask):
    answers = ask(*(request(number, 9) for number in range(7)))
    assert [count_tokens(parts) for parts in answers.values()] == [9] * 7
    assert all(len(parts) >= 9 for parts in answers.values())


def test_who_waits_when_it_is_stopped_is_answered_first(model):
    ours, theirs = Pipe()
    for message in (*(request(number, 9) for number in range(7)), None):
        send(ours, message)
    EngineLoop(model, theirs).run()
    told = []
    while ours.poll():
        told += [] if isinstance(message := receive(ours), Report) else message
    assert sorted(number for number, output in told if output.is_last) == list(range(7))


def test_a_request_that_cannot_be_read_is_refused_and_harms_no_other(ask):
    answers = ask(request(1, 5), request(2, 5, tokens=[10**6]), request(3, 10**6), Cancel(number=99))
    assert count_tokens(answers[1]) == 5
    assert [type(answers[number][-1]) for number in (2, 3)] == [InputError] * 2


class PanicError(BaseException):
    """As tokenizers raises it, in Rust."""


@pytest.mark.parametrize("mistake", [ZeroDivisionError, PanicError])
def test_a_mistake_of_ours_is_said_and_harms_no_other(ask, model, monkeypatch, caplog, mistake):
    whole = model.request

    def fail_at_three(inputs, options):
        if len(inputs) == 3:
            raise mistake("a mistake")
        return whole(inputs, options)

    monkeypatch.setattr(model, "request", fail_at_three)
    answers = ask(request(1, 5), request(2, 5, tokens=(5, 6, 7)))
    assert count_tokens(answers[1]) == 5 and mistake.__name__ in str(answers[2][-1])
    assert "a request could not be read" in caplog.text


@pytest.mark.planted
def test_a_step_that_fails_is_told_to_who_is_served_and_the_next_are_answered(ask, model, monkeypatch, caplog):
    step, failures = model.engine.step, [ZeroDivisionError("a mistake")]

    def fail_once():
        worked = step()
        if worked and failures:
            raise failures.pop()
        return worked

    monkeypatch.setattr(model.engine, "step", fail_once)
    assert isinstance(ask(request(1, 30))[1][-1], MachineError)
    assert count_tokens(ask(request(2, 3))[2]) == 3
    assert "a step of the engine failed" in caplog.text and "ZeroDivisionError: a mistake" in caplog.text
    assert (model.engine.meter.active, model.engine.meter.failed) == (0, 1)


@pytest.mark.planted
def test_a_request_without_a_guide_does_not_wait_for_those_with_one(model, monkeypatch):
    tried, whole = threading.Event(), model.request

    def try_guide(inputs, options):
        if options.structure is not None:
            assert tried.wait(PATIENCE_S)
        return whole(inputs, replace(options, regex=SamplingParams().regex, ignore_eos=True))

    monkeypatch.setattr(model, "request", try_guide)
    ours, theirs = Pipe()
    for message in (
        request(1, 9, regex="a*"),
        request(2, 9, regex="a*"),
        request(3, 9),
        Cancel(number=2),
        None,
    ):
        send(ours, message)
    thread = threading.Thread(target=EngineLoop(model, theirs).run)
    thread.start()
    ended = []
    while len(ended) < 3:
        assert ours.poll(PATIENCE_S)
        if not isinstance(message := receive(ours), Report):
            ended += [(n, out) for n, out in message if isinstance(out, AttendantError) or out.is_last]
        if ended:
            tried.set()
    thread.join(PATIENCE_S)
    codes = {number: getattr(output, "code", "") for number, output in ended}
    assert ended[0][0] == 3 and codes == {1: "", 2: "cancelled", 3: ""} and not thread.is_alive()


def test_guides_are_not_kept_where_nothing_is_to_do(ask, model, monkeypatch):
    asked = request(1, 3, regex="[a-z]{9}")
    ask(asked)
    assert model.loaded.guides.known(asked.options.structure)
    monkeypatch.setattr(engine_process, "QUIET_S", 0.0)
    until_s = time.monotonic() + PATIENCE_S
    while model.loaded.guides.known(asked.options.structure):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    ask(replace(asked, number=2))


def test_nor_where_much_is_to_do_without_a_guide(ask, model, monkeypatch):
    step = model.engine.step
    monkeypatch.setattr(model.engine, "step", lambda: step() or True)
    test_guides_are_not_kept_where_nothing_is_to_do(ask, model, monkeypatch)


def test_a_costly_guide_that_is_let_go_of_between_candidates_fails_their_request_alone(ask, model, monkeypatch):
    monkeypatch.setattr(token_guide, "MOST_BETWEEN_STEPS_S", -1.0)
    guides, create = model.loaded.guides, model.loaded.guides.create

    def create_and_forget(guide):
        ruled = create(guide)
        guides.prepare(guide).forget()
        return ruled

    monkeypatch.setattr(guides, "create", create_and_forget)
    answers = ask(request(1, 3, n=2, temperature=1.0, regex="[a-z]{9}"), request(2, 3))
    assert type(answers[1][-1]) is BusyError and count_tokens(answers[2]) == 3


def test_guides_of_requests_that_are_cancelled_are_not_tried_and_of_new_ones_few_wait(model, monkeypatch):
    cancelled, tried, whole = threading.Event(), [], model.request

    def try_guide(inputs, options):
        if options.structure is not None and options.structure.text != "known":
            tried.append(options.structure.text)
            assert cancelled.wait(PATIENCE_S)
        return whole(inputs, options)

    known = model.loaded.guides.prepare(SamplingParams(regex="known").structure)
    monkeypatch.setattr(model, "request", try_guide)
    ours, theirs = Pipe()
    for number in range(1, MOST_UNTRIED + 3):
        send(ours, request(number, 9, regex=f"a{{{number}}}"))
    for number in range(2, MOST_UNTRIED):
        send(ours, Cancel(number=number))
    send(ours, request(99, 9, regex="known"))
    send(ours, None)
    thread = threading.Thread(target=EngineLoop(model, theirs).run)
    thread.start()
    ended = {}
    while len(ended) < MOST_UNTRIED + 3:
        assert ours.poll(PATIENCE_S)
        if not isinstance(message := receive(ours), Report):
            ended |= {
                n: getattr(out, "code", "") for n, out in message if isinstance(out, AttendantError) or out.is_last
            }
        if 99 in ended:
            cancelled.set()
    thread.join(PATIENCE_S)
    assert known and list(ended)[-1] != 99 and len(tried) <= 4
    assert [number for number, code in ended.items() if code == "queue_full"] == [MOST_UNTRIED + 1, MOST_UNTRIED + 2]
    assert {ended[number] for number in range(2, MOST_UNTRIED)} == {"cancelled"}


def test_a_cancelled_request_ends_with_an_error(ask, model, monkeypatch):
    step = model.engine.step
    monkeypatch.setattr(model.engine, "step", lambda: time.sleep(0.02) or step())
    answers = ask(request(1, 30), request(2, 3), Cancel(number=1))
    assert answers[1][-1].code == "cancelled" and count_tokens(answers[2]) == 3
