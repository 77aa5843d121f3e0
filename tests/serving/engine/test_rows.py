"""Whatever comes and goes: no row is left empty between others, and what was computed moves with its sequence."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attendant.manifest import Manifest
from serving.engine import kv_cache as slots_module
from serving.engine.kv_cache import KVCache, Rows
from serving.engine.request import create_sequence
from serving.runtime.create_runners import create_runners
from tests.serving.engine.sample_sequences import Seen, bound, sequence, source_of, written

SLOTS, LONGEST = 5, 12


class Stamped:
    """Rows of which each position of each sequence's caches holds a number of its own, and each source another."""

    def __init__(self, decoder):
        self.written, self.seen = written(decoder), Seen(decoder)
        self.slots = KVCache(decoder, SLOTS)
        self.rows = Rows(self.slots)
        self.stamps, self.sources, self.promoted = {}, {}, set()
        self.latest = 0

    def fed(self, row):
        return bound(self.slots, self.seen, row, row + 1)

    def stamp(self, one):
        """One more position of a sequence is computed."""
        self.latest += 1
        for name in self.seen.signature.aliases.values():
            cache = self.fed(one.row)[name]
            if self.slots.capacity is None:
                cache[...] = self.latest
            else:
                cache[0, :, one.cached] = self.latest
        one.cached += 1
        self.stamps[one] = [*self.stamps[one], self.latest]

    def append(self, number):
        if len(self.rows) == SLOTS:
            return
        one = sequence(self.written)
        self.latest += 1
        self.sources[one], self.stamps[one] = (1 + number % LONGEST, self.latest), []
        memories = source_of(self.seen.signature, *self.sources[one])
        self.slots.place(len(self.rows), memories, len(self.rows))
        self.rows.append(one)
        for _ in range(1 + number % 4):
            self.stamp(one)

    def fork(self, number):
        one = self.rows.all[number % len(self.rows)]
        count = min(number % 3, SLOTS - len(self.rows))
        others = [create_sequence(one.request, 1, [], self.written) for _ in range(count)]
        self.rows.fork(one, others)
        for other in others:
            assert other.cached == one.cached
            self.stamps[other], self.sources[other] = self.stamps[one], self.sources[one]

    def promote(self, number):
        one = self.rows.all[number % len(self.rows)]
        self.rows.promote(one)
        self.promoted.add(one)

    def remove(self, number):
        one = self.rows.all[number % len(self.rows)]
        self.rows.remove(one)
        assert one.row == -1
        self.promoted.discard(one)

    def grow(self, number):
        self.stamp(self.rows.all[number % len(self.rows)])

    def check(self):
        assert [one.row for one in self.rows.all] == list(range(len(self.rows)))
        assert set(self.rows.all[: self.rows.decoding]) == self.promoted
        for one in self.rows.all:
            fed = self.fed(one.row)
            stamps = self.stamps[one] if self.slots.capacity is not None else self.stamps[one][-1]
            for name in self.seen.signature.aliases.values():
                cache = fed.pop(name)[0]
                if self.slots.capacity is not None:
                    cache = np.moveaxis(cache, 1, -1)[..., : one.cached]
                assert (cache == stamps).all(), name
            length, value = self.sources[one]
            for name, memory in source_of(self.seen.signature, length, value).items():
                whole = fed[name][0]
                within = tuple(slice(size) for size in memory.shape)
                assert (whole[within] == memory).all(), name
                assert np.count_nonzero(whole) == memory.size, f"zeros behind the source in {name}"


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "fork", "promote", "remove", "grow"]), st.integers(0, 99)),
    min_size=10,
    max_size=40,
)


@pytest.fixture(scope="module", params=["tiny_translator", "gru_artefact"])
def decoder(request):
    folder = request.getfixturevalue(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots_module, "SOURCE_BLOCK", 4)  # so that these short sources have several layouts
        yield create_runners(folder, Manifest.read(folder))["decoder"]


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_rows_stand_without_gaps_and_caches_and_sources_move_with_their_sequences(decoder, operations):
    stamped = Stamped(decoder)
    for name, number in operations:
        if name == "append" or len(stamped.rows):
            getattr(stamped, name)(number)
            stamped.check()


def test_what_was_promoted_already_stays_where_it_is(decoder):
    stamped = Stamped(decoder)
    for number in range(3):
        stamped.append(number)
    for place in (2, 0, 0):
        stamped.promote(place)
    assert stamped.rows.decoding == 1
    stamped.check()


def test_a_cleared_row_holds_zeros_and_the_others_what_they_held(decoder):
    stamped = Stamped(decoder)
    for number in range(3):
        stamped.append(number)
    one = stamped.rows.all[1]
    stamped.rows.clear(one)
    for name in decoder.signature.aliases.values():
        assert not stamped.fed(1)[name].any()
    stamped.rows.remove(one)
    stamped.check()
