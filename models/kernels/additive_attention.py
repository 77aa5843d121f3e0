"""Additive attention in one launch: scores, weights and context of one state over a padded source.

    e_j = Σ_a v_a tanh(query_a + key_ja)        w = softmax(e) where the mask holds        c = Σ_j w_j h_j

One program a row of the batch, which holds all its scores in registers: a source of up to 2048 positions.

Legend: B batch, S source positions, C width of an annotation, A width of the alignment network.
Source: Bahdanau, Cho and Bengio 2015, appendix A.1.2. The plain layer is models/layers/additive_attention.py.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from attendant.config import require
from models.kernel_configs.limits import MOST_POSITIONS
from models.kernel_configs.specialisation import (
    LOG2_E,
    Specialisation,
    pointer,
    power_of_two,
    require_float_type,
    type_name,
)
from models.kernels.launch import Arguments, launch, require_shape

_TILE = 4096
"""Elements of a tile of keys or annotations: 32 a thread."""


@triton.jit
def additive_attention_kernel(
    query: tl.tensor,
    keys: tl.tensor,
    score: tl.tensor,
    annotations: tl.tensor,
    mask: tl.tensor,
    source: tl.tensor,
    context: tl.tensor,
    weights: tl.tensor,
    WIDTH: tl.constexpr,
    ANNOTATION_WIDTH: tl.constexpr,
    LOG2_E: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_A: tl.constexpr,
) -> None:
    """See the module; ``query`` is ``[B, A]``, ``keys`` ``[B, S, A]``, ``score`` ``[A]``, ``mask`` bool ``[B, S]``."""
    batch = tl.program_id(0)
    row = batch.to(tl.int64) * source
    s_S = tl.arange(0, BLOCK_S)
    inside_S = s_S < source
    scores_S = tl.zeros([BLOCK_S], tl.float32)
    for first in range(0, WIDTH, BLOCK_A):
        a_A = first + tl.arange(0, BLOCK_A)
        query_A = tl.load(query + batch * WIDTH + a_A, mask=a_A < WIDTH, other=0.0).to(tl.float32)
        score_A = tl.load(score + a_A, mask=a_A < WIDTH, other=0.0).to(tl.float32)
        shown_SA = inside_S[:, None] & (a_A < WIDTH)[None, :]
        key_SA = tl.load(keys + (row + s_S)[:, None] * WIDTH + a_A[None, :], mask=shown_SA, other=0.0)
        # tanh x = 2 / (1 + e^(−2x)) − 1, which is right at ±∞ too.
        tanh_SA = 2.0 / (1.0 + tl.exp2((query_A[None, :] + key_SA.to(tl.float32)) * (-2.0 * LOG2_E))) - 1.0
        scores_S += tl.sum(tanh_SA * score_A[None, :], 1)
    seen_S = tl.load(mask + row + s_S, mask=inside_S, other=0).to(tl.int1)
    scores_S = tl.where(seen_S, scores_S, -float("inf"))
    highest = tl.max(scores_S, 0)
    weight_S = tl.exp2((scores_S - tl.where(highest == -float("inf"), 0.0, highest)) * LOG2_E)
    total = tl.sum(weight_S, 0)
    weight_S = weight_S / tl.where(total == 0.0, 1.0, total)
    tl.store(weights + row + s_S, weight_S.to(weights.dtype.element_ty), mask=inside_S)
    for first in range(0, ANNOTATION_WIDTH, BLOCK_A):
        c_A = first + tl.arange(0, BLOCK_A)
        shown_SA = seen_S[:, None] & (c_A < ANNOTATION_WIDTH)[None, :]
        at_SA = (row + s_S)[:, None] * ANNOTATION_WIDTH + c_A[None, :]
        annotation_SA = tl.load(annotations + at_SA, mask=shown_SA, other=0.0).to(tl.float32)
        context_A = tl.sum(weight_S[:, None] * annotation_SA, 0).to(context.dtype.element_ty)
        tl.store(context + batch * ANNOTATION_WIDTH + c_A, context_A, mask=c_A < ANNOTATION_WIDTH)


def specialise(width: int, annotation_width: int, longest: int, dtype: str) -> Specialisation:
    """The kernel for networks of one size.

    Args:
        width: A.
        annotation_width: C.
        longest: S at most; as good as the next power of two.
        dtype: of all tensors but the mask.

    Raises:
        ConfigError: a source that is too long, or a type without a kernel.
    """
    require_float_type(dtype)
    require(
        0 < longest <= MOST_POSITIONS, f"a source of 1 to {MOST_POSITIONS} positions", longest, "shorten the source"
    )
    block_s = power_of_two(16, longest)
    floats = dict.fromkeys(("query", "keys", "score", "annotations"), pointer(dtype))
    return Specialisation(
        kernel=additive_attention_kernel,
        types={
            **floats,
            "mask": pointer("bool"),
            "source": "i32",
            **dict.fromkeys(("context", "weights"), pointer(dtype)),
        },
        constants={
            "WIDTH": width,
            "ANNOTATION_WIDTH": annotation_width,
            "LOG2_E": LOG2_E,
            "BLOCK_S": block_s,
            "BLOCK_A": max(4, min(_TILE // block_s, power_of_two(1, max(width, annotation_width)))),
        },
        warps=4 if block_s <= 512 else 8,
        stages=2,
    )


def grid(batch: int) -> tuple[int]:
    """Blocks along each axis; the batch may be TensorRT's symbol."""
    return (batch,)


def additive_attention(
    query: Tensor, keys: Tensor, score: Tensor, annotations: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Attend once.

    Args:
        query: W s, ``[B, A]``.
        keys: U h_j, ``[B, S, A]``, S at most 2048.
        score: v, ``[A]``.
        annotations: h, ``[B, S, C]``.
        mask: bool ``[B, S]``, false at padding.

    Returns:
        The context ``[B, C]`` and the weights ``[B, S]``; both are zero for a row of padding alone.

    Raises:
        ConfigError: there is no kernel for such a source or type.
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    batch, source, width = keys.shape
    columns = annotations.shape[2]
    require_shape("query", query, (batch, width))
    require_shape("score", score, (width,))
    require_shape("annotations", annotations, (batch, source, columns))
    require_shape("mask", mask, (batch, source))
    context, weights = keys.new_empty((batch, columns)), keys.new_empty((batch, source))
    arguments: Arguments = {"query": query, "keys": keys, "score": score, "annotations": annotations, "mask": mask}
    arguments |= {"source": source, "context": context, "weights": weights}
    launch(specialise(width, columns, source, type_name(keys.dtype)), grid(batch), arguments)
    return context, weights
