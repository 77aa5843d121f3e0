"""Who gets slots, and that whoever cannot be begun harms nobody who waits behind."""

import pytest

from attendant.errors import InputError, MachineError
from attendant.manifest import Manifest
from serving.engine import scheduler as scheduler_module
from serving.engine.batch import Batch
from serving.engine.meter import Meter
from serving.engine.scheduler import RequestQueue, Scheduler
from serving.engine.settings import EngineSettings
from serving.runtime.create_runners import create_runners
from tests.serving.engine.sample_sequences import request_of, written


@pytest.fixture
def scheduler(language_model):
    parts = written(create_runners(language_model, Manifest.read(language_model))["decoder"])
    return Scheduler(parts, Batch.allocate(parts, EngineSettings(max_num_seqs=4)), Meter())


def line_of(*requests):
    line = RequestQueue(99)
    for one in requests:
        line.put(one)
    return line


def test_requests_get_slots_in_turn_and_nobody_overtakes_one_that_needs_many(scheduler):
    first, wide, last = request_of(), request_of(beam_width=4), request_of()
    line = line_of(first, wide, last)
    assert scheduler.admit(line) == [first]
    assert line.front(9) == [wide, last]


def test_rows_are_kept_for_the_answers_that_are_still_to_begin(scheduler):
    two, three = request_of(n=2, temperature=1.0), request_of(n=3, temperature=1.0)
    line = line_of(two, three)
    (request,) = scheduler.admit(line)
    assert len(scheduler._batch.rows) == 1, "the second candidate goes on from the first one's prompt"
    assert scheduler.admit(line) == []
    request.unfinished = 0
    scheduler._batch.rows.remove(request.sequences[0])
    assert scheduler.admit(line) == [three]


def test_who_cannot_be_begun_gets_an_error_and_those_behind_a_slot(scheduler):
    said = []
    bad, good = request_of(said.append, regex="[a"), request_of()
    assert scheduler.admit(line_of(bad, good)) == [good]
    assert [type(one) for one in said] == [InputError] and scheduler._meter.failed == 1


def test_a_mistake_of_ours_is_one_requests_error_too(scheduler, monkeypatch):
    create_first_sequence, said = scheduler_module.create_first_sequence, []

    def failing(one, written):
        if one is bad:
            raise ZeroDivisionError("a mistake")
        return create_first_sequence(one, written)

    monkeypatch.setattr(scheduler_module, "create_first_sequence", failing)
    bad, good = request_of(said.append), request_of()
    line = line_of(bad, good)
    assert scheduler.admit(line) == [good] and len(line) == 0
    assert isinstance(said[0], MachineError) and "ZeroDivisionError: a mistake" in str(said[0])
