"""The decoder-only Transformer: GPT-2, Llama, Mistral, Qwen2 and Qwen3 are settings of it.

Pre-norm blocks of causal self-attention and MLP, a norm behind the last, and the logits of the next token.

Legend: B batch, S positions, M cache capacity, A attended positions, G key and value heads, D head size, E model width,
V vocabulary.
Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3 (GPT-2); Touvron et al.
2023, "LLaMA", section 2.2, and "Llama 2", section 2.2; Jiang et al. 2023, "Mistral 7B", section 2; the Qwen2 (2024) and
Qwen3 (2025) technical reports, section 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive
from models.families.family import Family
from models.layers.attention import MultiHeadAttention
from models.layers.embedding import TiedEmbedding
from models.layers.few_rows import FewRows, Stepping
from models.layers.kv_cache import KeysValues, Remember, Remembering, remember_nothing, take_positions
from models.layers.masks import causal_mask, window_mask
from models.layers.mlp import ACTIVATIONS, MLP, Activation, GatedMLP
from models.layers.norm import NORMS, Norm, norm
from models.layers.positional import LearnedPositionTable
from models.layers.residual import PreNorm
from models.layers.rope import Rope, RopeConfig, Rotation


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """What one decoder-only model differs from another in.

    Attributes:
        vocabulary_size: V.
        layers: number of blocks.
        width: E.
        heads: H, query heads.
        kv_heads: G, of which ``heads`` is a multiple.
        head_size: D; H × D need not be E.
        mlp_width: inner width of the MLP.
        max_length: M, the longest sequence, prompt and answer together, for which a cache is kept.
        position_table: rows of a learned position table, at least ``max_length``; none where ``rope`` turns the heads.
        rope: rotary positions; none where there is a table.
        norm: ``layer`` or ``rms``.
        norm_eps: ε of every norm.
        activation: of the MLP.
        gated_mlp: whether the MLP has a gate (SwiGLU) or is the plain one with biases.
        mlp_bias: whether a gated MLP has biases, too.
        qkv_bias: whether the projections of queries, keys and values have biases.
        output_bias: whether the projection behind the heads has one.
        query_key_norm: whether each head of queries and keys has an RMSNorm.
        window: how many positions a position sees, itself included; all before it if none.
        first_window_layer: the blocks before this one see everything all the same,
        full_layers: and so do these.
        tied: whether the logits use the embedding matrix.
        dropout: rate during training.
    """

    vocabulary_size: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    mlp_width: int
    max_length: int
    position_table: int | None = None
    rope: RopeConfig | None = None
    norm: Norm = "rms"
    norm_eps: float = 1e-6
    activation: Activation = "silu"
    gated_mlp: bool = True
    mlp_bias: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False
    window: int | None = None
    first_window_layer: int = 0
    full_layers: tuple[int, ...] = ()
    tied: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_positive(self, "vocabulary_size", "layers", "width", "heads", "kv_heads", "head_size", "mlp_width")
        require_positive(self, "max_length", *(["window"] if self.window is not None else []))
        require_fraction(self, "dropout", "norm_eps")
        require(self.heads % self.kv_heads == 0, f"heads to be a multiple of {self.kv_heads} kv_heads", self.heads)
        require_choice(self, "norm", NORMS)
        require_choice(self, "activation", ACTIVATIONS)
        require_bool(self, "gated_mlp", "mlp_bias", "qkv_bias", "output_bias", "query_key_norm", "tied")
        require(
            (self.position_table is None) != (self.rope is None),
            "either position_table or rope",
            f"position_table {self.position_table} and rope {self.rope}",
        )
        if self.position_table is not None:
            require_positive(self, "position_table")
            require(self.max_length <= self.position_table, "max_length within position_table", self.max_length)
        inside = type(self.first_window_layer) is int and 0 <= self.first_window_layer < self.layers
        within = all(type(layer) is int and 0 <= layer < self.layers for layer in self.full_layers)
        require(within, f"full_layers from 0 to {self.layers - 1}", repr(self.full_layers)[:100])
        require(inside, f"first_window_layer from 0 to {self.layers - 1}", self.first_window_layer)


class CausalBlock(Stepping):
    """Causal self-attention and MLP, each behind a pre-norm residual."""

    def __init__(self, config: DecoderConfig, window: int | None) -> None:
        super().__init__()
        self.window = window
        self.attention = MultiHeadAttention(
            config.width,
            config.heads,
            config.qkv_bias,
            kv_heads=config.kv_heads,
            head_size=config.head_size,
            output_bias=config.output_bias,
            query_key_eps=config.norm_eps if config.query_key_norm else None,
        )
        mlp, bias = (GatedMLP, config.mlp_bias) if config.gated_mlp else (MLP, True)
        self.mlp = mlp(config.width, config.mlp_width, config.activation, bias=bias)
        self.attention_residual = PreNorm(config.width, config.norm_eps, config.dropout, config.norm)
        self.mlp_residual = PreNorm(config.width, config.norm_eps, config.dropout, config.norm)

    def forward(
        self, hidden: Tensor, remember: Remember, mask: Tensor, positions: Tensor, rotation: Rotation | None
    ) -> Tensor:
        """One block over new positions.

        Args:
            hidden: ``[B, S, E]``.
            remember: from the new positions' keys and values ``[B, G, S, D]`` to those to attend to.
            mask: bool, over new positions and what ``remember`` returns.
            positions: int64 ``[B, S]``.
            rotation: of queries and keys to these positions.

        Returns:
            ``[B, S, E]``.
        """
        if self.window is not None:
            keys = torch.arange(mask.shape[3], device=mask.device)
            mask = mask & window_mask(positions, keys, self.window)

        if self.few_rows is not None and self.few_rows.takes(hidden):
            return self._step(hidden, remember, mask, rotation, self.few_rows)
        attend = self.attention.attend_behind
        attended = self.attention_residual(hidden, lambda x: attend(x, remember, mask, rotation=rotation))
        mixed: Tensor = self.mlp_residual(attended, self.mlp)
        return mixed

    def _step(self, hidden: Tensor, remember: Remember, mask: Tensor, rotation: Rotation | None, by: FewRows) -> Tensor:
        attention, mlp, norm = self.attention, self.mlp, self.attention_residual.norm
        if attention.joined is None:
            layers = attention.query, attention.key, attention.value
            projected = tuple(by.multiply(hidden, layer, norm) for layer in layers)
        else:
            projected = attention.joined.split(by.multiply(hidden, attention.joined, norm))
        heads = attention.attend_projected(projected, remember, mask, rotation)
        hidden, norm = by.multiply(heads, attention.output, residual=hidden), self.mlp_residual.norm
        if isinstance(mlp, MLP):
            inner = mlp.activation(by.multiply(hidden, mlp.expand, norm))
        elif mlp.joined is not None and isinstance(mlp.activation, nn.SiLU):
            inner = by.multiply(hidden, mlp.joined, norm, gated=True)
        else:
            inner = mlp.activation(by.multiply(hidden, mlp.gate, norm)) * by.multiply(hidden, mlp.expand, norm)
        return by.multiply(inner, mlp.contract, residual=hidden)


class Decoder(Remembering):
    """A language model: from tokens to the logits of the next one."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TiedEmbedding(config.vocabulary_size, config.width, scale=1.0)
        self.positions = (
            None if config.position_table is None else LearnedPositionTable(config.position_table, config.width)
        )
        self.rope = None if config.rope is None else Rope(config.head_size, config.rope)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            CausalBlock(
                config,
                None if layer < config.first_window_layer or layer in config.full_layers else config.window,
            )
            for layer in range(config.layers)
        )
        self.norm = norm(config.norm, config.width, config.norm_eps)
        self.head = None if config.tied else nn.Linear(config.width, config.vocabulary_size, bias=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Score every position of int64 sequences ``[B, S]``: logits of the next token ``[B, S, V]``."""
        start = torch.zeros_like(token_ids[:, 0])
        mask = causal_mask(token_ids.shape[1], token_ids.device)
        return self._run(token_ids, start, mask, [remember_nothing] * self.config.layers)

    def decode_cached(
        self,
        token_ids: Tensor,
        start: Tensor,
        self_mask: Tensor,
        caches: Sequence[KeysValues],
        scored: Tensor | None = None,
    ) -> tuple[Tensor, list[KeysValues]]:
        """Score new positions behind those in the cache; prefill and single steps alike.

        Args:
            token_ids: int64 ``[B, S]``, the new tokens.
            start: int64 ``[B]``, how many tokens each row's cache holds; ``start + S ≤ M``.
            self_mask: bool ``[B, 1, S, A]``: which of the first A cache positions each new token sees;
                A is at least ``max(start) + S``. A window narrows it further.
            caches: for each block keys and values ``[B, G, M, D]``.
            scored: int64 ``[B, L]``, which of the new positions get logits; all if not given.

        Returns:
            Logits ``[B, L, V]``, and the caches with the new positions written.
        """
        writers = self.cache_writers(caches, start, self_mask.shape[3])
        logits = self._run(token_ids, start, self_mask, writers, scored)
        return logits, [writer.present for writer in writers]

    def _run(
        self,
        token_ids: Tensor,
        start: Tensor,
        mask: Tensor,
        memories: Sequence[Remember],
        scored: Tensor | None = None,
    ) -> Tensor:
        positions = start[:, None] + torch.arange(token_ids.shape[1], device=token_ids.device)
        hidden = self.embedding(token_ids)
        if self.positions is not None:
            hidden = hidden + self.positions(positions)
        hidden = self.dropout(hidden)
        rotation = None if self.rope is None else self.rope(positions).to(hidden.dtype)
        for block, remember in zip(self.blocks, memories, strict=True):
            hidden = block(hidden, remember, mask, positions, rotation)
        hidden = self.norm(hidden if scored is None else take_positions(hidden, scored))
        logits: Tensor = self.embedding.logits(hidden) if self.head is None else self.head(hidden)
        return logits


FAMILY = Family(name="decoder", graphs="generate", config=DecoderConfig, build=Decoder)
