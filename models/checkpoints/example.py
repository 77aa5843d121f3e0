"""A request with its right answer, by which a server can be known to work.

The answer ends before the first token that rounding could change, and before a character that is not whole: weights
may be random, and a runtime may add in another order.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attendant.errors import InputError
from attendant.tensor_names import INPUT_IDS
from attendant.tokenizer import TextTokenizer
from models.checkpoints.store import Checkpoint

TEXT = "The house is small."
MOST_TOKENS = 8
TOLD_VALUES = 8
_MARGIN = 1e-3
_BROKEN = "\N{REPLACEMENT CHARACTER}"
Score = Callable[[Sequence[int]], Tensor]


def token_ids_example(checkpoint: Checkpoint, most_tokens: int = MOST_TOKENS) -> dict[str, Any]:
    """Some tokens, and those with which a language model continues them, where it has no tokenizer.

    Returns:
        The checkpoint's ``example``; without an answer if no token is certain.
    """
    config = checkpoint.config
    prompt = list(range(1, min(most_tokens + 1, config.vocabulary_size, config.max_length)))
    tokens, limit = _decode_while_certain(
        _continue(checkpoint, prompt), checkpoint, min(most_tokens, config.max_length - len(prompt)), None
    )
    inputs = {INPUT_IDS: prompt, "max_tokens": max(1, limit)}
    return {"inputs": inputs, "answer": tokens} if limit else {"inputs": inputs}


def example_for(
    checkpoint: Checkpoint, tokenizer: TextTokenizer, text: str = TEXT, most_tokens: int = MOST_TOKENS
) -> dict[str, Any]:
    """A short text, and what the model says to it by greedy decoding, or the first values that it pools.

    A captioner sees pixels that are all zero, which a client sends where the example has no pixels.

    Returns:
        The checkpoint's ``example``; without an answer if no token is certain, and empty if the text is too long or
        the model's task is another.
    """
    task = checkpoint.family.task.name
    try:
        if task == "embed":
            ids_1S = torch.tensor([tokenizer.encode(text, checkpoint.config.max_length)])
            with torch.no_grad():
                mask_1S, types_1S = torch.ones_like(ids_1S, dtype=torch.bool), torch.zeros_like(ids_1S)
                _, pooled_1E = checkpoint.model(ids_1S, mask_1S, types_1S)
            answer = [round(value, 6) for value in pooled_1E[0, :TOLD_VALUES].tolist()]
            return {"inputs": {"text": text}, "answer": answer}
        if task not in _SCORES:
            return {}
        score, longest, prompt = _SCORES[task](checkpoint, tokenizer, text)
    except InputError:
        return {}
    forced = checkpoint.details.get("forced_start_token") if prompt == 1 else None
    tokens, limit = _decode_while_certain(score, checkpoint, min(most_tokens, longest), forced)
    while tokens and _BROKEN in tokenizer.decode(tokens):
        tokens, limit = tokens[:-1], len(tokens) - 1
    inputs = {} if task == "caption" else {"text": text}
    if limit < 1:
        return {"inputs": {**inputs, "max_tokens": 1}} if longest >= 1 else {}
    return {"inputs": {**inputs, "max_tokens": limit}, "answer": tokenizer.decode(tokens)}


def image_example(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a classifier says to pixels that are all zero, which a client sends where the example has no pixels.

    Returns:
        The checkpoint's ``example``; empty if rounding could change the answer, or the task is another.
    """
    if checkpoint.family.task.name != "classify":
        return {}
    with torch.no_grad():
        logits_K: Tensor = checkpoint.model(*checkpoint.family.graph_builder.typical_inputs(checkpoint.config))[0]
    best, second = logits_K.topk(2).values.tolist() if len(logits_K) > 1 else (1.0, 0.0)
    if best - second < _MARGIN * max(1.0, abs(best)):
        return {}
    index = int(logits_K.argmax())
    return {"inputs": {}, "answer": checkpoint.details.get("labels", {index: str(index)})[index]}


def _decode_while_certain(score: Score, checkpoint: Checkpoint, most: int, forced: int | None) -> tuple[list[int], int]:
    details, tokens = checkpoint.details, list[int]()
    ends = details.get("end_tokens") or [getattr(checkpoint.config, "end_token", -1)]
    while len(tokens) < most:
        logits_V = score(tokens)
        logits_V[details.get("suppressed_tokens", [])] = -torch.inf
        best, second = logits_V.topk(2).values.tolist()
        if forced is None and best - second < _MARGIN * max(1.0, abs(best)):
            return tokens, len(tokens)
        token = int(logits_V.argmax()) if forced is None else forced
        forced = None
        if token in ends:
            break
        tokens.append(token)
    return tokens, most


def _continuation(checkpoint: Checkpoint, tokenizer: TextTokenizer, text: str) -> tuple[Score, int, int]:
    longest = checkpoint.config.max_length
    prompt = tokenizer.encode(text, longest - 1)
    return _continue(checkpoint, prompt), longest - len(prompt), len(prompt)


def _continue(checkpoint: Checkpoint, prompt: Sequence[int]) -> Score:
    @torch.no_grad()
    def score(tokens: Sequence[int]) -> Tensor:
        logits_V: Tensor = checkpoint.model(torch.tensor([[*prompt, *tokens]]))[0, -1]
        return logits_V

    return score


def _translation(checkpoint: Checkpoint, tokenizer: TextTokenizer, text: str) -> tuple[Score, int, int]:
    model, config = checkpoint.model, checkpoint.config
    source_BS = torch.tensor([tokenizer.encode(text, config.max_source_length)])
    mask_BS = torch.ones_like(source_BS, dtype=torch.bool)

    @torch.no_grad()
    def score(tokens: Sequence[int]) -> Tensor:
        logits_V: Tensor = model(source_BS, mask_BS, torch.tensor([[config.start_token, *tokens]]))[0, -1]
        return logits_V

    return score, config.max_target_length - 1, 1


def _caption(checkpoint: Checkpoint, tokenizer: TextTokenizer, text: str) -> tuple[Score, int, int]:
    model, config = checkpoint.model, checkpoint.config
    pixels = torch.zeros(1, *config.pixel_shape)

    @torch.no_grad()
    def score(tokens: Sequence[int]) -> Tensor:
        logits_V: Tensor = model(pixels, torch.tensor([[config.start_token, *tokens]]))[0, -1]
        return logits_V

    return score, config.max_target_length - 1, 1


_SCORES = {"generate": _continuation, "translate": _translation, "caption": _caption}
