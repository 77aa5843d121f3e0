"""What is allocated, and that what guides take of it is bounded."""

import gc

import numpy as np
import pytest

from attendant.sampling_params import Structure
from serving.engine.sampling import guide as guide_module
from serving.engine.sampling.allocated import allocated_bytes
from tests.serving.engine.sampling.test_token_guide import new_guides

pytestmark = pytest.mark.skipif(not allocated_bytes(), reason="the C library does not say what is allocated")


@pytest.mark.parametrize("count", [1, 1000])
def test_what_is_allocated_is_counted_whole_or_in_parts(count):
    gc.collect()  # what other tests left
    before = allocated_bytes()
    held = [bytearray((64 << 20) // count) for _ in range(count)]
    assert 0.9 < (allocated_bytes() - before) / (64 << 20) < 1.2
    held.clear()
    assert allocated_bytes() - before < 6 << 20


COSTLY = [Structure(kind="regex", text=rf"(\w*a\w{{{20 + n}}}b\w*|\w*c\w{{{19 + n}}}d\w*)+") for n in range(6)]
"""Each token of an answer adds some 50 kB to their lexers."""


def grown_by(rounds):
    """How much is allocated at most while requests hold guides, and answers of them come and go."""
    guides, draw, most = new_guides(), np.random.default_rng(0), 0
    guides.prepare(Structure(kind="regex", text="a"))
    before = allocated_bytes()
    held = [guides.prepare(guide) for guide in COSTLY]
    for guide in rounds * COSTLY:
        assert guides.prepare(guide) in held
        ruled = guides.create(guide)
        for _ in range(30):
            ruled.take(int(draw.choice(ruled.allowed().nonzero()[0])))
        most = max(most, allocated_bytes() - before)
    return most


def test_lexers_that_have_grown_are_let_go_of_though_requests_hold_their_guides(monkeypatch):
    unbounded = grown_by(rounds=16)
    monkeypatch.setattr(guide_module, "MOST_BYTES", 4 << 20)
    assert grown_by(rounds=16) < unbounded / 4
