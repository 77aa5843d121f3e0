"""The thread that steps: it answers everybody before it ends, and outlives a step that fails."""

import threading

import pytest

from attendant.errors import AttendantError, MachineError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from serving.engine.engine import EngineThread
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import LanguageModel

LONG = 20  # s, after which a test gives up


@pytest.fixture
def model(language_model):
    return LanguageModel(language_model, Manifest.read(language_model), settings=EngineSettings(max_num_seqs=2))


class Answer:
    """What one request is told, and a way to wait for its end."""

    def __init__(self, model, count, mistake=None):
        self.said, self.over, self.mistake = [], threading.Event(), mistake
        options = SamplingParams(max_tokens=count, ignore_eos=True)
        self.request = model.engine.submit(model.request([5, 6], options), self.take)

    def take(self, piece):
        if self.mistake and not isinstance(piece, AttendantError):
            raise self.mistake
        self.said.append(piece)
        if isinstance(piece, AttendantError) or piece.is_last:
            self.over.set()


def test_who_waits_when_it_is_stopped_is_answered_first(model):
    answers = [Answer(model, 9) for _ in range(7)]
    thread = EngineThread(model.engine)
    thread.stop()
    assert not thread.is_alive
    assert [answer.said[-1].is_last for answer in answers] == [True] * 7
    assert [sum(len(piece.token_ids) for piece in answer.said) for answer in answers] == [9] * 7


def test_requests_that_come_later_are_answered_too(model):
    thread = EngineThread(model.engine)
    try:
        for _ in range(3):
            answer = Answer(model, 3)
            assert answer.over.wait(LONG) and answer.said[-1].is_last
    finally:
        thread.stop()


def test_a_step_that_fails_is_told_to_who_is_served_and_the_next_are_answered(model, caplog):
    served = Answer(model, 30), Answer(model, 30, ZeroDivisionError("a mistake"))
    waiting = Answer(model, 3)
    thread = EngineThread(model.engine)
    try:
        for answer in (*served, waiting):
            assert answer.over.wait(LONG)
        assert thread.is_alive
    finally:
        thread.stop()
    assert [type(answer.said[-1]) for answer in served] == [MachineError] * 2
    assert waiting.said[-1].is_last
    assert "a step of the engine failed" in caplog.text and "ZeroDivisionError: a mistake" in caplog.text
    assert (model.engine.meter.active, model.engine.meter.failed) == (0, 2)
