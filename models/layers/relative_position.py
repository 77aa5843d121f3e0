"""A learned number for each head and each range of distances, added to the attention scores.

    bias[b, h, t, a] = weight[bucket(key_a − query_t), h]
    bucket(d) = d                                                  for d < n/2
    bucket(d) = n/2 + ⌊ln(d / (n/2)) / ln(longest / (n/2)) · n/2⌋    beyond, at most n − 1

d is a distance into the past, and the n buckets are all of them; a bidirectional layer has half of the buckets for the
past and, in the same order behind these, half for the future. A one-way layer counts every future key as distance 0.

Legend: B batch, H heads, T query positions, A key positions.
Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer" (T5),
section 2.1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.config import require


class RelativePositionBias(nn.Module):
    """T5's bias; one layer serves all blocks of a stack.

    The buckets of all distances are computed once: a runtime whose logarithm differs in its last bit, or that computes
    it in half precision, would put distances at a bucket's edge into its neighbour.

    Args:
        heads: H.
        buckets: rows of the table, even if bidirectional.
        longest: the distance from which on all fall into one bucket.
        bidirectional: whether keys in the future have buckets of their own.

    Raises:
        ConfigError: the buckets do not split, or are too many for the longest distance.
    """

    bucket_of_distance: Tensor

    def __init__(self, heads: int, buckets: int, longest: int, bidirectional: bool) -> None:
        super().__init__()
        least = 4 if bidirectional else 2
        splits = not bidirectional or buckets % 2 == 0
        require(buckets >= least and splits, f"at least {least} buckets, even if bidirectional", buckets)
        self.future = buckets // 2 if bidirectional else None
        one_way = buckets // 2 if bidirectional else buckets
        require(longest > one_way // 2, f"a longest distance above {one_way // 2}", longest)
        self.longest = longest
        self.weight = nn.Parameter(torch.zeros(buckets, heads))
        self.register_buffer("bucket_of_distance", _buckets_of_distances(one_way, longest), persistent=False)

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The bias of int64 query positions ``[B, T]`` and key positions ``[A]``: ``[B, H, T, A]``."""
        ahead_BTA = key_positions - query_positions[:, :, None]
        return F.embedding(self._buckets(ahead_BTA), self.weight).permute(0, 3, 1, 2)

    def _buckets(self, ahead_BTA: Tensor) -> Tensor:
        if self.future is None:
            return self.bucket_of_distance[(-ahead_BTA).clamp(0, self.longest)]
        past_or_future_BTA = (ahead_BTA > 0).long() * self.future
        return self.bucket_of_distance[ahead_BTA.abs().clamp(max=self.longest)] + past_or_future_BTA


def _buckets_of_distances(buckets: int, longest: int) -> Tensor:
    exact = buckets // 2
    distance = torch.arange(longest + 1)
    # In float32, and in this order of operations, as the published models were trained.
    share = torch.log(distance.clamp(min=exact).float() / exact) / math.log(longest / exact)
    beyond = (exact + (share * (buckets - exact)).long()).clamp(max=buckets - 1)
    return torch.where(distance < exact, distance, beyond)
