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

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attendant.config import require


class RelativePositionBias(nn.Module):
    """T5's bias; one layer serves all blocks of a stack.

    The buckets of all distances are computed once: a runtime whose logarithm differs in its last bit, or that computes
    it in half precision, would put some distances at a bucket's edge into its neighbour.

    Args:
        heads: H.
        buckets: rows of the table, even if bidirectional.
        longest: the distance from which on all fall into one bucket.
        bidirectional: whether keys in the future have buckets of their own.

    Raises:
        ConfigError: the buckets do not split, or are too many for the longest distance.
    """

    buckets: Tensor

    def __init__(self, heads: int, buckets: int, longest: int, bidirectional: bool) -> None:
        super().__init__()
        least = 4 if bidirectional else 2
        splits = not bidirectional or buckets % 2 == 0
        require(buckets >= least and splits, f"at least {least} buckets, even if bidirectional", buckets)
        one_way = buckets // 2 if bidirectional else buckets
        require(longest > one_way // 2, f"a longest distance above {one_way // 2}", longest)
        self.furthest_back, self.furthest_ahead = -longest, longest if bidirectional else 0
        self.weight = nn.Parameter(torch.zeros(buckets, heads))
        exact = one_way // 2
        distance = torch.arange(longest + 1)
        # In float32 and in this order, as in T5's code: elsewhere a distance at an edge may round into the next bucket.
        share = torch.log(distance.clamp(min=exact).float() / exact) / math.log(longest / exact)
        beyond = (exact + (share * (one_way - exact)).long()).clamp(max=one_way - 1)
        past = torch.where(distance < exact, distance, beyond)
        both = torch.cat([past.flip(0), one_way + past[1:]]) if bidirectional else past.flip(0)
        self.register_buffer("buckets", both, persistent=False)

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The bias of int64 query positions ``[B, T]`` and key positions ``[A]``: ``[B, H, T, A]``."""
        ahead_BTA = key_positions - query_positions[:, :, None]
        row_BTA = ahead_BTA.clamp(self.furthest_back, self.furthest_ahead) - self.furthest_back
        # Distances to bias first: in an exported graph this is a constant, and the bias one look-up.
        bias_of_distance = F.embedding(self.buckets, self.weight)
        return F.embedding(row_BTA, bias_of_distance).permute(0, 3, 1, 2)
