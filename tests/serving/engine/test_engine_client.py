"""An engine in a process of its own, that is killed, stopped and broken."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from attendant.errors import ArtefactError, AttendantError, BusyError, LoadingError, LostError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from serving.engine import engine_client
from serving.engine.engine_client import EngineClient
from serving.engine.engine_process import load_verified
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import LanguageModel

PATIENCE_S = 60.0


class Answers:
    """What each owner is told, and a way to wait for the end of some."""

    def __init__(self):
        self.told, self.ticks, self.changed = {}, 0, threading.Condition()

    def take(self, owner, outputs):
        with self.changed:
            self.told.setdefault(owner, []).extend(outputs)
            self.changed.notify_all()

    def tick(self):
        self.ticks += 1

    def is_over(self, owner):
        told = self.told.get(owner)
        return bool(told) and (isinstance(told[-1], AttendantError) or told[-1].is_last)

    def end_of(self, owner):
        """The last part, and how many tokens there were."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.is_over(owner), PATIENCE_S)
        last = self.told[owner][-1]
        return last if isinstance(last, AttendantError) else sum(len(part.token_ids) for part in self.told[owner])


@pytest.fixture
def answers():
    return Answers()


@pytest.fixture
def load(language_model):
    return partial(
        load_verified, LanguageModel, language_model, Manifest.read(language_model), settings=EngineSettings()
    )


@pytest.fixture
def engine(load, answers):
    client = EngineClient(load, 16, answers.take, answers.tick)
    yield client
    client.stop()


def request(count, tokens=(5, 6)):
    return list(tokens), SamplingParams(max_tokens=count, ignore_eos=True)


def process_of(engine):
    return engine._process.pid


def test_it_answers_as_the_model_does_in_this_process(engine, answers, load):
    for number in range(3):
        engine.submit(number, *request(20))
    model = load()
    expected = [
        token
        for part in model.stream(model.request([5, 6], SamplingParams(max_tokens=20, ignore_eos=True)))
        for token in part.token_ids
    ]
    for number in range(3):
        assert answers.end_of(number) == 20
        assert [token for part in answers.told[number] for token in part.token_ids] == expected


@pytest.mark.planted
def test_a_dead_engine_ends_its_requests_at_once_and_the_next_are_answered(engine, answers):
    for number in range(3):
        before = process_of(engine)
        engine.submit(("lost", number), *request(30))
        os.kill(before, signal.SIGKILL)
        error = answers.end_of(("lost", number))
        assert error == 30 or (isinstance(error, LostError) and f"{-signal.SIGKILL}" in error.found)
        engine.submit(("next", number), *request(4))  # while it is being started
        assert answers.end_of(("next", number)) == 4
        assert process_of(engine) != before


@pytest.mark.planted
def test_an_engine_whose_answers_nobody_reads_for_a_while_is_not_ended(long_language_model, answers, monkeypatch):
    monkeypatch.setattr(engine_client, "HANG_S", 0.6)
    manifest, settings, waited = Manifest.read(long_language_model), EngineSettings(), []

    def take(owner, outputs):
        if not waited:
            waited.append(time.sleep(3.0))  # as where this process gets no processor, until the engine cannot write
        answers.take(owner, outputs)

    load = partial(load_verified, LanguageModel, long_language_model, manifest, settings=settings)
    client = EngineClient(load, 16, take, answers.tick)
    try:
        for number in range(8):
            client.submit(number, *request(2000))
        assert [answers.end_of(number) for number in range(8)] == [2000] * 8
        assert client.starts == 1
    finally:
        client.stop()


@pytest.mark.planted
def test_a_stopped_engine_is_started_anew_and_a_paused_one_is_not(engine, answers, monkeypatch):
    monkeypatch.setattr(engine_client, "HANG_S", 1.5)
    first = process_of(engine)
    os.kill(first, signal.SIGSTOP)
    engine.submit("paused", *request(5))
    time.sleep(0.5)
    os.kill(first, signal.SIGCONT)
    assert answers.end_of("paused") == 5 and process_of(engine) == first
    os.kill(first, signal.SIGSTOP)
    engine.submit("stopped", *request(5))
    assert isinstance(answers.end_of("stopped"), LostError)
    engine.submit("next", *request(5))
    assert answers.end_of("next") == 5 and process_of(engine) != first


def test_a_large_request_and_those_behind_it_arrive_in_order(engine, answers):
    engine.submit("large", *request(2, [5] * (1 << 20)))
    engine.submit("small", *request(2))
    assert "tokens" in str(answers.end_of("large")) and answers.end_of("small") == 2


def test_requests_wait_for_an_engine_that_is_started_anew_and_for_no_longer_than_they_should(
    engine, answers, monkeypatch, tmp_path
):
    monkeypatch.setattr(engine_client, "HELD_S", 0.3)
    good, engine._load = engine._load, partial(LanguageModel, tmp_path, engine._load.args[2])
    os.kill(process_of(engine), signal.SIGKILL)
    while not engine.health().loading:
        time.sleep(0.01)
    engine.submit("held", *request(3))
    assert isinstance(answers.end_of("held"), LoadingError)
    engine._load = good
    while engine.health().loading:
        time.sleep(0.05)
    engine.submit("next", *request(3))
    assert answers.end_of("next") == 3


@pytest.mark.planted
def test_an_engine_that_is_started_anew_reads_no_file_that_was_changed(language_model, tmp_path, answers, monkeypatch):
    monkeypatch.setattr(engine_client, "HELD_S", 0.3)
    folder = tmp_path / "artefact"
    shutil.copytree(language_model, folder)
    client = EngineClient(
        partial(load_verified, LanguageModel, folder, Manifest.read(folder)), 16, answers.take, answers.tick
    )
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + " ")
    os.kill(process_of(client), signal.SIGKILL)
    while not client.health().loading:
        time.sleep(0.01)
    client.submit("held", *request(3))
    assert isinstance(answers.end_of("held"), LoadingError)
    ends_s = time.monotonic() + PATIENCE_S
    while not client.health().failure:
        assert time.monotonic() < ends_s
        time.sleep(0.01)
    assert "tokenizer.json" in client.health().failure
    client.stop()


class DeafModel(LanguageModel):
    """Its engine never hears of a request."""

    def request(self, inputs, options=None, /):
        threading.Event().wait()


def test_an_engine_that_takes_no_requests_is_started_anew(language_model, answers, monkeypatch):
    monkeypatch.setattr(engine_client, "UNREAD_S", 1.0)
    client = EngineClient(
        partial(DeafModel, language_model, Manifest.read(language_model)), 16, answers.take, answers.tick
    )
    client.submit("unread", *request(3))
    assert isinstance(answers.end_of("unread"), LostError)
    client.stop()


def test_one_request_too_many_is_refused(engine, answers):
    os.kill(process_of(engine), signal.SIGSTOP)
    try:
        for number in range(16):
            engine.submit(number, *request(2))
        with pytest.raises(BusyError):
            engine.submit("too many", *request(2))
    finally:
        os.kill(process_of(engine), signal.SIGCONT)
    assert [answers.end_of(number) for number in range(16)] == [2] * 16


def test_a_cancelled_request_ends(engine, answers):
    engine.submit("cancelled", *request(30))
    engine.cancel("cancelled")
    engine.cancel("unknown")
    error = answers.end_of("cancelled")
    assert error == 30 or error.code == "cancelled"


def test_who_waits_when_it_is_stopped_is_answered_first(load, answers):
    client = EngineClient(load, 64, answers.take, answers.tick)
    for number in range(40):
        client.submit(number, *request(9))
    client.stop()
    assert [answers.end_of(number) for number in range(40)] == [9] * 40
    assert client._process.returncode == 0


@pytest.mark.planted
def test_what_was_said_before_the_end_is_answered_however_late_it_is_read(load):
    class SlowAnswers(Answers):
        def take(self, owner, outputs):
            time.sleep(0 if self.told else 1.0)
            super().take(owner, outputs)

    answers = SlowAnswers()
    client = EngineClient(load, 64, answers.take, answers.tick)
    for number in range(10):
        client.submit(number, *request(9))
    client.stop()
    assert [answers.end_of(number) for number in range(10)] == [9] * 10


@pytest.mark.planted
def test_an_engine_that_is_stopped_while_it_is_loaded_is_started_anew(engine, answers, monkeypatch):
    monkeypatch.setattr(engine_client, "HANG_S", 1.0)
    first = process_of(engine)
    os.kill(first, signal.SIGKILL)
    while process_of(engine) == first:
        time.sleep(0.001)
    os.kill(process_of(engine), signal.SIGSTOP)
    engine.submit("held", *request(3))
    assert answers.end_of("held") == 3


def test_a_start_that_fails_is_tried_again(engine, answers, monkeypatch):
    start, failures = engine_client.start_python, [OSError("no descriptor"), OSError("no memory")]

    def start_at_third(*arguments):
        if failures:
            raise failures.pop()
        return start(*arguments)

    monkeypatch.setattr(engine_client, "start_python", start_at_third)
    os.kill(process_of(engine), signal.SIGKILL)
    engine.submit("held", *request(3))
    assert answers.end_of("held") in (3,) or isinstance(answers.end_of("held"), LostError)
    engine.submit("next", *request(3))
    assert answers.end_of("next") == 3 and not failures


def test_it_says_how_it_does(engine, answers):
    engine.submit(1, *request(9))
    assert answers.end_of(1) == 9
    ends_s = time.monotonic() + PATIENCE_S
    while not engine.meter.finished or not answers.ticks:
        assert time.monotonic() < ends_s
        time.sleep(0.05)
    health = engine.health(("a key",))
    assert (health.alive, health.loading, health.unknown, health.busy) == (True, False, ("a key",), False)
    assert health.steps >= 8 and engine.meter.tokens == 9 and engine.ready.slots == EngineSettings().max_num_seqs


def test_a_model_that_cannot_be_loaded_is_an_error(language_model, tmp_path, answers):
    with pytest.raises(ArtefactError, match=str(tmp_path)):
        EngineClient(partial(LanguageModel, tmp_path, Manifest.read(language_model)), 16, answers.take, answers.tick)


ORPHAN = """
import pickle, sys
from serving.engine.engine_client import EngineClient
from serving.engine.engine_process import load_verified
client = EngineClient(pickle.load(sys.stdin.buffer), 16, print, lambda: None)
print(client._process.pid, flush=True)
"""


def test_it_does_not_outlive_who_started_it(load):
    starter = subprocess.Popen(
        [sys.executable, "-c", ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert starter.stdin is not None and starter.stdout is not None
    pickle.dump(load, starter.stdin)
    starter.stdin.close()
    pid = int(starter.stdout.readline())
    os.kill(pid, signal.SIGSTOP)  # so that it cannot see that the other end is closed
    starter.kill()
    starter.wait()
    starter.stdout.close()
    ends_s = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}/stat").exists() and ") Z " not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < ends_s
        time.sleep(0.05)
