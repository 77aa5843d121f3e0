"""What the kernel of additive_attention computes, in plain PyTorch.

Legend: B batch, S source positions, C width of an annotation, A width of the alignment network.
"""

from __future__ import annotations

import torch
from torch import Tensor


def additive_attention_reference(
    query: Tensor, keys: Tensor, score: Tensor, annotations: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """As :func:`models.kernels.additive_attention.additive_attention`, in float32 or better, rounded at the end."""
    precise = torch.promote_types(keys.dtype, torch.float32)
    scores_BS = torch.tanh(query.to(precise)[:, None] + keys.to(precise)) @ score.to(precise)
    weights_BS = scores_BS.masked_fill(~mask, -torch.inf).softmax(1).nan_to_num(0)
    seen_BSC = annotations.to(precise).masked_fill(~mask[:, :, None], 0)
    context_BC = (weights_BS[:, None] @ seen_BSC)[:, 0]
    return context_BC.to(keys.dtype), weights_BS.to(keys.dtype)
