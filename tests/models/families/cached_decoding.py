"""A cached decode in pieces: every row of the batch advances at its own pace, as in a server's batch."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from models.families.encoder_decoder import CrossDecoder
from tests.models.agreement import difference
from tests.models.families.translation import SOURCE_LENGTHS, TARGET_LENGTH, logits_of

STALE = 3.0  # what an earlier request left in the caches


def stale_caches(model: CrossDecoder, rows: int) -> list[tuple[Tensor, Tensor]]:
    """Caches full of other requests' numbers."""
    config = model.config
    shape = rows, config.heads, config.max_target_length, config.head_size
    like = model.embedding.weight
    return [(like.new_full(shape, STALE), like.new_full(shape, -STALE)) for _ in range(config.decoder_blocks)]


def seen_mask(start: Tensor, steps: int, attended: int) -> Tensor:
    """Bool ``[B, 1, steps, attended]``: a new token sees all that its row holds, up to itself."""
    own_position = start[:, None] + torch.arange(steps)
    return (torch.arange(attended) <= own_position[..., None])[:, None]


def decode_in_pieces(
    model: CrossDecoder, batch: Any, pieces: Sequence[Sequence[int]], spare: int = 0, start_error: int = 0
) -> list[Tensor]:
    """Each row's logits, token by token.

    Args:
        model: in evaluation mode.
        batch: its targets are what is decoded.
        pieces: for each row, how many of its tokens each call takes; a row that takes fewer than another
            is filled up with junk, which its next piece overwrites.
        spare: how many cache positions behind the last one are attended to as well, masked.
        start_error: added to every start from the second call on; wrong unless zero.
    """
    memory = model.encode(*batch.source)
    crosses, caches = model.cross_keys_and_values(memory), stale_caches(model, len(pieces))
    done = torch.zeros(len(pieces), dtype=torch.long)
    collected: list[list[Tensor]] = [[] for _ in pieces]
    for call in range(max(map(len, pieces))):
        counts = [row[call] if call < len(row) else 0 for row in pieces]
        steps = max(counts)
        start = done + start_error * bool(call)
        attended = min(int(start.max()) + steps + spare, model.config.max_target_length)
        new = torch.full((len(pieces), steps), model.config.pad_token)
        for row, count in enumerate(counts):
            new[row, :count] = batch.target_ids[row, done[row] : done[row] + count]
        mask = seen_mask(start, steps, attended)
        logits, caches = model.decode_cached(new, start, mask, batch.source_mask, caches, crosses)
        for row, count in enumerate(counts):
            collected[row].append(logits[row, :count])
        done += torch.tensor(counts)
    return [torch.cat(parts) for parts in collected]


def worst_difference(model: CrossDecoder, batch: Any, pieces: Sequence[Sequence[int]], **options: int) -> float:
    """Between a decode in pieces and the full forward pass; the options are those of :func:`decode_in_pieces`."""
    full = logits_of(model, batch)
    rows = decode_in_pieces(model, batch, pieces, **options)
    return max(difference(row, full[number, : len(row)]) for number, row in enumerate(rows))


def step_by_step_and_at_once(model: CrossDecoder, batch: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """For each row its logits by a cached decode of one token a call, and by the full forward pass."""
    rows = decode_in_pieces(model, batch, [[1] * TARGET_LENGTH] * len(batch.target_ids))
    return zip(rows, logits_of(model, batch), strict=True)


@st.composite
def any_pieces(draw: st.DrawFn) -> list[list[int]]:
    """For each row one way to cut its tokens into calls; some calls pass without a token of this row."""
    rows = [draw(_compositions()) for _ in SOURCE_LENGTHS]
    calls = [call for call in range(max(map(len, rows))) if any(call < len(row) and row[call] for row in rows)]
    return [[row[call] if call < len(row) else 0 for call in calls] for row in rows]


@st.composite
def _compositions(draw: st.DrawFn) -> list[int]:
    cuts = draw(st.lists(st.integers(0, TARGET_LENGTH), max_size=TARGET_LENGTH))
    ends = [0, *sorted(cuts), TARGET_LENGTH]
    return [end - begin for begin, end in pairwise(ends)]
