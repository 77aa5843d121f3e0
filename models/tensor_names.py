"""The names of tensors on which more than one room relies, and the request that every text model takes.

Text tensors are named as TensorRT-LLM names them, so that Triton's own OpenAI front end and the clients of others fit.
"""

from __future__ import annotations

from models.signature import TensorSpec

PIXELS = "pixels"
LOGITS = "logits"

HEIGHT, WIDTH = "height", "width"  # the sides of an image, where they vary
POSITIONS = "positions"  # of the grid that such an image becomes

EXPLAINED = "explained"  # the graph that also shows what it attends to
EXPLAIN = "explain"  # the parameter by which a request asks for that
CANCEL = "cancel"  # the parameter that takes the request with the given id back
ALIGNMENT = "alignment"
CROSS_ATTENTION = "cross_attention"

TEXT_INPUT = "text_input"
MAX_TOKENS = "max_tokens"
STREAM = "stream"
TEXT_OUTPUT = "text_output"
FINISH_REASON = "finish_reason"
OUTPUT_IDS = "output_ids"

POOLED = "pooled"
HIDDEN = "hidden"
TOKEN_MASK = "token_mask"  # noqa: S105  (no password)

TEXT_REQUEST = (TensorSpec(name=TEXT_INPUT, dtype="string", axes=(1,)),)
TEXT_OPTIONS = (
    TensorSpec(name=MAX_TOKENS, dtype="int32", axes=(1,)),
    TensorSpec(name=STREAM, dtype="bool", axes=(1,)),
)
TEXT_RESPONSE = (
    TensorSpec(name=TEXT_OUTPUT, dtype="string", axes=(1,)),
    TensorSpec(name=FINISH_REASON, dtype="string", axes=(1,)),
    TensorSpec(name=OUTPUT_IDS, dtype="int64", axes=("tokens",)),
)
