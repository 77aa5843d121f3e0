"""Blocks of prompts: found by all that stands before them; what was not used for longest is dropped from its end."""

import numpy as np
import pytest

from serving.engine.prefix_cache import BLOCK, PrefixCache

BYTES = 2 * 3 * BLOCK * 4 * 4  # of a block of two caches [3, BLOCK, 4], float32


def prompt(*names, more=0):
    """A prompt of one block of tokens for each name, and a few more tokens."""
    return [int(name) if not isinstance(name, str) else ord(name) for name in names for _ in range(BLOCK)] + [1] * more


class Reading:
    """What a cache holds: numbers that tell which prompt and which positions were read."""

    def __init__(self, value):
        self.value, self.read = value, []

    def __call__(self, begin, end):
        self.read.append((begin, end))
        return [np.full((3, end - begin, 4), self.value + begin, dtype=np.float32) for _ in range(2)]


def values(blocks):
    return [float(block[0][0, 0, 0]) for block in blocks]


def test_the_whole_blocks_that_two_prompts_share_are_found_in_order():
    cache = PrefixCache(10**9)
    cache.store(prompt("a", "b", "c", more=5), Reading(1000))
    assert values(cache.match(prompt("a", "b", "x"))) == [1000, 1000 + BLOCK]
    assert values(cache.match(prompt("a", "b", "c", more=31))) == [1000, 1000 + BLOCK, 1000 + 2 * BLOCK]
    assert cache.match(prompt("a")[:-1]) == [] and cache.match(prompt("x", "b")) == []
    assert cache.nbytes == 3 * BYTES, "the tokens behind the last whole block are not kept"


def test_equal_tokens_behind_another_beginning_are_another_block():
    cache = PrefixCache(10**9)
    cache.store(prompt("a", "b"), Reading(1000))
    cache.store(prompt("x", "b"), Reading(2000))
    assert values(cache.match(prompt("a", "b"))) == [1000, 1000 + BLOCK]
    assert values(cache.match(prompt("x", "b"))) == [2000, 2000 + BLOCK]
    assert cache.match(prompt("b")) == []


def test_what_is_known_is_not_read_again():
    cache, again = PrefixCache(10**9), Reading(2000)
    cache.store(prompt("a", "b"), Reading(1000))
    cache.store(prompt("a", "b", "c"), again)
    assert again.read == [(2 * BLOCK, 3 * BLOCK)]
    assert values(cache.match(prompt("a", "b", "c"))) == [1000, 1000 + BLOCK, 2000 + 2 * BLOCK]


@pytest.mark.parametrize("use", [lambda cache: cache.match(prompt("a")), lambda cache: cache.store(prompt("a"), None)])
def test_what_was_not_used_for_longest_is_dropped(use):
    cache = PrefixCache(2 * BYTES)
    cache.store(prompt("a"), Reading(1000))
    cache.store(prompt("b"), Reading(2000))
    use(cache)
    cache.store(prompt("c"), Reading(3000))
    assert [len(cache.match(prompt(name))) for name in "abc"] == [1, 0, 1]
    assert cache.nbytes == 2 * BYTES


def test_of_a_prompt_longer_than_the_memory_the_beginning_is_kept():
    cache = PrefixCache(2 * BYTES)
    cache.store(prompt("a", "b", "c", "d"), Reading(1000))
    assert values(cache.match(prompt("a", "b", "c", "d"))) == [1000, 1000 + BLOCK]


def test_a_prompt_loses_its_last_blocks_first():
    cache = PrefixCache(3 * BYTES)
    cache.store(prompt("a", "b", "c"), Reading(1000))
    assert len(cache.match(prompt("a", "b", "c"))) == 3
    cache.store(prompt("x"), Reading(2000))
    assert len(cache.match(prompt("a", "b", "c"))) == 2 and len(cache.match(prompt("x"))) == 1


def test_no_more_bytes_are_held_than_may_be():
    cache = PrefixCache(5 * BYTES + 1)
    generator = np.random.default_rng(0)
    for number in range(60):
        cache.store(prompt(*generator.integers(0, 3, size=generator.integers(1, 7))), Reading(number))
        assert cache.nbytes <= 5 * BYTES
    assert cache.nbytes == 5 * BYTES


def test_a_block_larger_than_all_the_memory_drops_nothing():
    cache = PrefixCache(BYTES - 1)
    cache.store(prompt("a", "b"), Reading(1000))
    assert cache.nbytes == 0 and cache.match(prompt("a")) == []
