"""The Transformer encoder-decoder of the paper: post-norm, sinusoidal positions, one shared embedding matrix.

Legend: B batch, S source positions, T target positions, M cache capacity, H heads, D head size, E model width,
V vocabulary.
Source: Vaswani et al. 2017, "Attention Is All You Need", section 3 and figure 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.config import require, require_fraction, require_positive
from models.layers.attention import MultiHeadAttention, causal_mask, key_mask
from models.layers.embedding import TiedEmbedding
from models.layers.kv_cache import tensor_scatter
from models.layers.mlp import MLP
from models.layers.positional import SinusoidalPositions
from models.layers.residual import PostNorm

KeysValues = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2SeqConfig:
    """Sizes of a Transformer encoder-decoder.

    Attributes:
        vocabulary_size: V, shared by source and target.
        layers: N, of the encoder and again of the decoder.
        width: E, ``d_model`` of the paper.
        heads: H.
        mlp_width: inner width of the feed-forward network, ``d_ff`` of the paper.
        max_source_length: longest source, in tokens.
        max_target_length: M, longest target including the start token.
        dropout: rate during training.
        attention_bias: whether the four attention projections have biases.
        norm_eps: ε of every layer normalisation.
        pad_token, start_token, end_token: token ids.
    """

    vocabulary_size: int
    layers: int = 6
    width: int = 512
    heads: int = 8
    mlp_width: int = 2048
    max_source_length: int = 512
    max_target_length: int = 512
    dropout: float = 0.1
    attention_bias: bool = True
    norm_eps: float = 1e-5
    pad_token: int = 0
    start_token: int = 1
    end_token: int = 2

    def __post_init__(self) -> None:
        require_positive(self, "vocabulary_size", "layers", "width", "heads", "mlp_width")
        require_positive(self, "max_source_length", "max_target_length")
        require_fraction(self, "dropout", "norm_eps")
        require(type(self.attention_bias) is bool, "attention_bias to be true or false", repr(self.attention_bias))
        require(self.width % self.heads == 0, f"width to be a multiple of {self.heads} heads", self.width)
        require(self.width % 2 == 0, "an even width, half sines and half cosines", self.width)
        specials = (self.pad_token, self.start_token, self.end_token)
        inside = all(type(token) is int and 0 <= token < self.vocabulary_size for token in specials)
        require(len(set(specials)) == 3 and inside, "three different special tokens inside the vocabulary", specials)

    @property
    def head_size(self) -> int:
        """D, the width of one head."""
        return self.width // self.heads


class EncoderBlock(nn.Module):
    """Self-attention and MLP, each behind a post-norm residual."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.width, config.heads, config.attention_bias)
        self.mlp = MLP(config.width, config.mlp_width, "relu")
        self.attention_residual = PostNorm(config.width, config.norm_eps, config.dropout)
        self.mlp_residual = PostNorm(config.width, config.norm_eps, config.dropout)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """``[B, S, E]`` and a bool mask over ``[B, H, S, S]`` → ``[B, S, E]``."""
        attended: Tensor = self.attention_residual(hidden, lambda x: self.attention(x, x, mask))
        mixed: Tensor = self.mlp_residual(attended, self.mlp)
        return mixed


class DecoderBlock(nn.Module):
    """Self-attention, cross-attention and MLP, each behind a post-norm residual."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.width, config.heads, config.attention_bias)
        self.cross_attention = MultiHeadAttention(config.width, config.heads, config.attention_bias)
        self.mlp = MLP(config.width, config.mlp_width, "relu")
        self.self_residual = PostNorm(config.width, config.norm_eps, config.dropout)
        self.cross_residual = PostNorm(config.width, config.norm_eps, config.dropout)
        self.mlp_residual = PostNorm(config.width, config.norm_eps, config.dropout)

    def forward(
        self,
        hidden: Tensor,
        remember: Callable[[Tensor, Tensor], KeysValues],
        self_mask: Tensor,
        cross: KeysValues,
        cross_mask: Tensor,
    ) -> Tensor:
        """One block over new target positions.

        Args:
            hidden: ``[B, T, E]``.
            remember: from the new positions' keys and values ``[B, H, T, D]`` to those to attend to.
            self_mask: bool, over new positions and what ``remember`` returns.
            cross: the source's keys and values, ``[B, H, S, D]`` each.
            cross_mask: bool ``[B, 1, T, S]``.

        Returns:
            ``[B, T, E]``.
        """

        def attend_self(x: Tensor) -> Tensor:
            return self.self_attention.attend_to(x, *remember(*self.self_attention.keys_and_values(x)), self_mask)

        hidden = self.self_residual(hidden, attend_self)
        hidden = self.cross_residual(hidden, lambda x: self.cross_attention.attend_to(x, *cross, cross_mask))
        mixed: Tensor = self.mlp_residual(hidden, self.mlp)
        return mixed


class Seq2SeqTransformer(nn.Module):
    """Encoder and decoder with one embedding matrix."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TiedEmbedding(config.vocabulary_size, config.width)
        longest = max(config.max_source_length, config.max_target_length)
        self.positions = SinusoidalPositions(longest, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderBlock(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderBlock(config) for _ in range(config.layers))

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> Tensor:
        """Encode int64 ``[B, S]`` with a bool padding mask ``[B, S]``: ``[B, S, E]``."""
        start = torch.zeros_like(source_ids[:, 0])
        hidden = self._embed(source_ids, start)
        mask = key_mask(source_mask, source_ids.shape[1])
        for block in self.encoder:
            hidden = block(hidden, mask)
        return hidden

    def cross_keys_and_values(self, memory: Tensor) -> list[KeysValues]:
        """Project the encoder's output ``[B, S, E]`` once for every decoder block: ``[B, H, S, D]`` each."""
        return [block.cross_attention.keys_and_values(memory) for block in self._decoder_blocks()]

    def decode(self, target_ids: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Score every target position without a cache.

        Args:
            target_ids: int64 ``[B, T]``, shifted right: it begins with the start token.
            memory: ``[B, S, E]``.
            source_mask: bool ``[B, S]``.

        Returns:
            Logits of the next token at each position, ``[B, T, V]``.
        """
        hidden = self._embed(target_ids, torch.zeros_like(target_ids[:, 0]))
        self_mask = causal_mask(target_ids.shape[1], target_ids.device)
        cross_mask = key_mask(source_mask, target_ids.shape[1])
        crosses = self.cross_keys_and_values(memory)
        for block, cross in zip(self._decoder_blocks(), crosses, strict=True):
            hidden = block(hidden, lambda k, v: (k, v), self_mask, cross, cross_mask)
        return self.embedding.logits(hidden)

    def decode_cached(
        self,
        target_ids: Tensor,
        start: Tensor,
        self_mask: Tensor,
        source_mask: Tensor,
        caches: Sequence[KeysValues],
        crosses: Sequence[KeysValues],
    ) -> tuple[Tensor, list[KeysValues]]:
        """Score new target positions behind those in the cache; prefill and single steps alike.

        Args:
            target_ids: int64 ``[B, T]``, the new tokens.
            start: int64 ``[B]``, how many tokens each row's cache holds; ``start + T ≤ M``.
            self_mask: bool ``[B, 1, T, A]``: which of the first A cache positions each new token sees;
                A is at least ``max(start) + T``.
            source_mask: bool ``[B, S]``.
            caches: for each block keys and values ``[B, H, M, D]``.
            crosses: for each block keys and values ``[B, H, S, D]``.

        Returns:
            Logits ``[B, T, V]``, and the caches with the new positions written.
        """
        hidden = self._embed(target_ids, start)
        cross_mask = key_mask(source_mask, target_ids.shape[1])
        attended = self_mask.shape[3]
        present: list[KeysValues] = []

        for block, cache, cross in zip(self._decoder_blocks(), caches, crosses, strict=True):
            written: list[Tensor] = []

            def remember(
                keys: Tensor, values: Tensor, cache: KeysValues = cache, written: list[Tensor] = written
            ) -> KeysValues:
                written += [tensor_scatter(old, new, start) for old, new in zip(cache, (keys, values), strict=True)]
                return written[0][:, :, :attended], written[1][:, :, :attended]

            hidden = block(hidden, remember, self_mask, cross, cross_mask)
            present.append((written[0], written[1]))
        return self.embedding.logits(hidden), present

    def forward(self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
        """Teacher forcing: sources ``[B, S]`` and shifted targets ``[B, T]`` → logits ``[B, T, V]``."""
        return self.decode(target_ids, self.encode(source_ids, source_mask), source_mask)

    def _embed(self, token_ids: Tensor, start: Tensor) -> Tensor:
        positions = start[:, None] + torch.arange(token_ids.shape[1], device=token_ids.device)
        embedded: Tensor = self.dropout(self.embedding(token_ids) + self.positions(positions))
        return embedded

    def _decoder_blocks(self) -> list[DecoderBlock]:
        return [block for block in self.decoder if isinstance(block, DecoderBlock)]
