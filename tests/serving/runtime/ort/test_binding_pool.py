"""What a runner keeps from call to call never shows: neither in answers, nor in memory."""

import gc
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners

SOURCES = np.array([[3, 4, 5], [6, 7, 8], [5, 5, 5], [9, 3, 7]])


@pytest.fixture(scope="module")
def runners(tiny_translator):
    return create_runners(tiny_translator, Manifest.read(tiny_translator))


@pytest.fixture
def begin(runners):
    """A decoder of one source, which is remembered by nobody else."""

    def started(source):
        given = {"source_ids": source[None], "source_mask": np.ones((1, len(source)), dtype=bool)}
        return CachedDecoder(runners["decoder"], 1, {**given, **runners["encoder"].run(dict(given))})

    return started


def logits(decoder, steps=4):
    """A copy of what each step returns."""
    return [decoder.step(np.array([[5 + at]]), np.array([at]))["logits"].copy() for at in range(steps)]


def test_what_a_call_returned_is_not_written_by_the_next_one(begin):
    decoder = begin(SOURCES[0])
    first = decoder.step(np.array([[5]]), np.array([0]))["logits"]
    before = first.copy()
    second = decoder.step(np.array([[6]]), np.array([1]))["logits"]
    assert (second != before).any()
    np.testing.assert_array_equal(first, before)


def test_decoders_that_take_turns_answer_as_alone(begin):
    alone = [logits(begin(source)) for source in SOURCES[:2]]
    decoders = [begin(source) for source in SOURCES[:2]]
    turns = [[one.step(np.array([[5 + at]]), np.array([at]))["logits"].copy() for one in decoders] for at in range(4)]
    np.testing.assert_array_equal(np.array(turns).swapaxes(0, 1), alone)  # the same computation twice, in one process
    assert (np.array(alone[0]) != np.array(alone[1])).any()


def test_calls_at_once_answer_as_one_after_another(begin):
    alone = [logits(begin(source)) for source in SOURCES]
    with ThreadPoolExecutor(4) as threads:
        at_once = [list(threads.map(logits, map(begin, SOURCES))) for _ in range(5)]
    for found in at_once:
        np.testing.assert_array_equal(found, alone)  # the same computation twice, in one process


def test_caches_that_nobody_holds_are_given_back(begin):
    decoder = begin(SOURCES[0])
    logits(decoder)
    buffer = next(iter(decoder.caches.values()))
    cache, memory = ref(buffer), ref(buffer.numpy())
    del buffer, decoder
    gc.collect()
    assert cache() is None and memory() is None


def test_a_refused_call_leaves_the_next_one_as_it_was(begin):
    expected, decoder = logits(begin(SOURCES[0]), 2), begin(SOURCES[0])
    first = decoder.step(np.array([[5]]), np.array([0]))["logits"].copy()
    with pytest.raises(InputError, match="int32"):
        decoder.step(np.array([[6]], dtype=np.int32), np.array([1]))
    second = decoder.step(np.array([[6]]), np.array([1]))["logits"].copy()
    np.testing.assert_array_equal([first, second], expected)
