"""A cached decode in pieces: every row of the batch advances at its own pace, as in a server's batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from models.families.seq2seq import Seq2SeqTransformer
from tests.models.families.translation import Batch

STALE = 3.0  # what an earlier request left in the caches


def stale_caches(model: Seq2SeqTransformer, rows: int) -> list[tuple[Tensor, Tensor]]:
    """Caches full of other requests' numbers."""
    config = model.config
    shape = rows, config.heads, config.max_target_length, config.head_size
    like = model.embedding.weight
    return [(like.new_full(shape, STALE), like.new_full(shape, -STALE)) for _ in range(config.layers)]


def seen_mask(start: Tensor, steps: int, attended: int) -> Tensor:
    """Bool ``[B, 1, steps, attended]``: a new token sees all that its row holds, up to itself."""
    own_position = start[:, None] + torch.arange(steps)
    return (torch.arange(attended) <= own_position[..., None])[:, None]


def decode_in_pieces(
    model: Seq2SeqTransformer, batch: Batch, pieces: Sequence[Sequence[int]], spare: int = 0, start_error: int = 0
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
    memory = model.encode(batch.source_ids, batch.source_mask)
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
