"""What every Transformer decoder with a source does, be it text or pixels, and what an encoder-decoder of texts adds.

The source is encoded once; targets are scored with or without a cache.

Legend: B batch, S source positions, T target positions, A attended positions, M cache capacity, H heads, D head size,
E model width, V vocabulary.
Source: Vaswani et al. 2017, "Attention Is All You Need", figure 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from models.layers.blocks import DecoderBlock
from models.layers.kv_cache import KeysValues, Remember, Remembering, remember_nothing, take_positions
from models.layers.masks import causal_mask, key_mask


class CrossDecoder(Remembering, ABC):
    """A stack of blocks that attend to a source; a family fills it in, and says how tokens enter and how scores leave.

    Attributes:
        config: the family's.
        decoder: :class:`models.layers.blocks.DecoderBlock`, one after another.
        decoder_end: behind the last block.
        decoder_bias: from query positions ``[B, T]`` and key positions ``[A]`` to what every block adds to its scores
            of self-attention, ``[B, H, T, A]``; nothing is added if there is none.
    """

    config: Any
    decoder: nn.ModuleList
    decoder_end: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.decoder_bias: nn.Module | None = None

    @abstractmethod
    def embed_target(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        """What goes into the decoder: int64 tokens ``[B, T]`` at positions ``[B or 1, T]`` → ``[B, T, E]``."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the next token: ``[B, T, E]`` → ``[B, T, V]``."""

    def cross_keys_and_values(self, memory: Tensor) -> list[KeysValues]:
        """Project the encoder's output ``[B, S, E]`` once for every decoder block: ``[B, H, S, D]`` each."""
        blocks = [block for block in self.decoder if isinstance(block, DecoderBlock)]
        return [block.cross_attention.keys_and_values(memory) for block in blocks]

    def decode(self, target_ids: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Score every target position without a cache.

        Args:
            target_ids: int64 ``[B, T]``, shifted right: it begins with the start token.
            memory: ``[B, S, E]``.
            source_mask: bool ``[B, S]``; a source without padding needs none.

        Returns:
            Logits of the next token at each position, ``[B, T, V]``.
        """
        length = target_ids.shape[1]
        positions = torch.arange(length, device=target_ids.device)[None]
        self_mask, memories = causal_mask(length, target_ids.device), [remember_nothing] * len(self.decoder)
        return self._decode(target_ids, positions, self_mask, source_mask, memories, self.cross_keys_and_values(memory))

    def decode_cached(
        self,
        target_ids: Tensor,
        start: Tensor,
        self_mask: Tensor,
        source_mask: Tensor | None,
        caches: Sequence[KeysValues],
        crosses: Sequence[KeysValues],
        scored: Tensor | None = None,
    ) -> tuple[Tensor, list[KeysValues]]:
        """Score new target positions behind those in the cache; prefill and single steps alike.

        Args:
            target_ids: int64 ``[B, T]``, the new tokens.
            start: int64 ``[B]``, how many tokens each row's cache holds; ``start + T ≤ M``.
            self_mask: bool ``[B, 1, T, A]``: which of the first A cache positions each new token sees;
                A is at least ``max(start) + T``.
            source_mask: bool ``[B, S]``; a source without padding needs none.
            caches: for each block keys and values ``[B, H, M, D]``.
            crosses: for each block keys and values ``[B, H, S, D]``.
            scored: int64 ``[B, L]``, which of the new positions get logits; all if not given.

        Returns:
            Logits ``[B, L, V]``, and the caches with the new positions written.
        """
        positions = start[:, None] + torch.arange(target_ids.shape[1], device=target_ids.device)
        writers = self.cache_writers(caches, start, self_mask.shape[3])
        logits = self._decode(target_ids, positions, self_mask, source_mask, writers, crosses, scored)
        return logits, [writer.present for writer in writers]

    def _decode(
        self,
        target_ids: Tensor,
        positions: Tensor,
        self_mask: Tensor,
        source_mask: Tensor | None,
        memories: Sequence[Remember],
        crosses: Sequence[KeysValues],
        scored: Tensor | None = None,
    ) -> Tensor:
        hidden = self.embed_target(target_ids, positions)
        cross_mask = None if source_mask is None else key_mask(source_mask, target_ids.shape[1])
        bias = _bias(self.decoder_bias, positions, self_mask.shape[3])
        for block, remember, cross in zip(self.decoder, memories, crosses, strict=True):
            hidden = block(hidden, remember, self_mask, cross, cross_mask, bias)
        if scored is not None:
            hidden = take_positions(hidden, scored)
        return self.logits(self.decoder_end(hidden))


class EncoderDecoder(CrossDecoder):
    """The decoder with the stack of blocks that reads a text.

    Attributes:
        encoder: :class:`models.layers.blocks.EncoderBlock`, one after another.
        encoder_end: behind the last block of the encoder.
        encoder_bias: as ``decoder_bias``, of the encoder's self-attention.
    """

    encoder: nn.ModuleList
    encoder_end: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.encoder_bias: nn.Module | None = None

    @abstractmethod
    def embed_source(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        """What goes into the encoder: int64 tokens ``[B, S]`` at positions ``[B or 1, S]`` → ``[B, S, E]``."""

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> Tensor:
        """Encode int64 ``[B, S]`` with a bool padding mask ``[B, S]``: ``[B, S, E]``."""
        length = source_ids.shape[1]
        positions = torch.arange(length, device=source_ids.device)[None]
        hidden = self.embed_source(source_ids, positions)
        mask, bias = key_mask(source_mask, length), _bias(self.encoder_bias, positions, length)
        for block in self.encoder:
            hidden = block(hidden, mask, bias)
        memory: Tensor = self.encoder_end(hidden)
        return memory

    def forward(self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
        """Teacher forcing: sources ``[B, S]`` and shifted targets ``[B, T]`` → logits ``[B, T, V]``."""
        return self.decode(target_ids, self.encode(source_ids, source_mask), source_mask)


def _bias(layer: nn.Module | None, positions: Tensor, keys: int) -> Tensor | None:
    return None if layer is None else layer(positions, torch.arange(keys, device=positions.device))
