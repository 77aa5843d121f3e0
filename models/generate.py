"""Greedy decoding by the full forward pass, with no cache: slow, and the measure of every faster way.

Legend: B batch, S source positions, T target positions.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class TranslationModel(Protocol):
    """What decoding must know of a model; its family says what each of these does."""

    @property
    def config(self) -> Any:
        """With ``start_token`` and ``end_token``."""

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> Any:
        """What :meth:`decode` needs of the sources."""

    def decode(self, target_ids: Tensor, memory: Any, source_mask: Tensor, /) -> Tensor:
        """Logits ``[B, T, V]``."""


class CaptionModel(Protocol):
    """What describing images must know of a model."""

    @property
    def config(self) -> Any:
        """With ``start_token`` and ``end_token``."""

    def encode(self, pixels: Tensor) -> Any:
        """What :meth:`decode` needs of images."""

    def decode(self, target_ids: Tensor, memory: Any, /) -> Tensor:
        """Logits ``[B, T, V]``."""


@torch.no_grad()
def translate_greedily(
    model: TranslationModel, source_ids: Tensor, source_mask: Tensor, max_tokens: int
) -> list[list[int]]:
    """The most probable next token, again and again.

    Args:
        model: in evaluation mode.
        source_ids: int64 ``[B, S]``.
        source_mask: bool ``[B, S]``, false at padding.
        max_tokens: longest answer; with the start token it fits the model's ``max_target_length``.

    Returns:
        For each row the new tokens, without the start and the end token.
    """
    memory = model.encode(source_ids, source_mask)
    return _answers(
        lambda target_BT: model.decode(target_BT, memory, source_mask), len(source_ids), model.config, max_tokens
    )


@torch.no_grad()
def caption_greedily(model: CaptionModel, pixels: Tensor, max_tokens: int) -> list[list[int]]:
    """The most probable next token of a caption, again and again.

    Args:
        model: in evaluation mode.
        pixels: float ``[B, C, height, width]``.
        max_tokens: longest caption; with the start token it fits the model's ``max_target_length``.

    Returns:
        For each image the tokens, without the start and the end token.
    """
    memory = model.encode(pixels)
    return _answers(lambda target_BT: model.decode(target_BT, memory), len(pixels), model.config, max_tokens)


@torch.no_grad()
def continue_greedily(
    model: Callable[[Tensor], Tensor], prompt: Sequence[int], max_tokens: int, end_tokens: Collection[int] = ()
) -> list[int]:
    """The most probable next token, again and again, behind a prompt.

    Args:
        model: a language model in evaluation mode: int64 ``[1, S]`` → logits ``[1, S, V]``.
        prompt: at least one token; with the answer it fits the model's ``max_length``.
        max_tokens: longest answer.
        end_tokens: what ends an answer.

    Returns:
        The new tokens, without the end token.
    """
    answer: list[int] = []
    while len(answer) < max_tokens:
        token = int(model(torch.tensor([[*prompt, *answer]]))[0, -1].argmax())
        if token in end_tokens:
            break
        answer.append(token)
    return answer


def pad_sources(sources: list[list[int]], pad_token: int) -> tuple[Tensor, Tensor]:
    """Stack token lists into int64 ``[B, S]`` and its bool mask ``[B, S]``, padding on the right."""
    longest = max(len(source) for source in sources)
    ids = torch.tensor([source + [pad_token] * (longest - len(source)) for source in sources])
    mask = torch.tensor([[True] * len(source) + [False] * (longest - len(source)) for source in sources])
    return ids, mask


def _answers(score: Callable[[Tensor], Tensor], rows: int, config: Any, max_tokens: int) -> list[list[int]]:
    target_BT = torch.full((rows, 1), config.start_token)
    for _ in range(max_tokens):
        next_B = score(target_BT)[:, -1].argmax(-1)
        target_BT = torch.cat([target_BT, next_B[:, None]], dim=1)
        if (target_BT == config.end_token).any(1).all():
            break
    answers: list[list[int]] = target_BT[:, 1:].tolist()
    return [row[: row.index(config.end_token)] if config.end_token in row else row for row in answers]
