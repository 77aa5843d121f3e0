"""The Transformer encoder-decoder with absolute positions: the paper's by default; Marian and BART are settings of it.

    post-norm: x_i = r(x_{i−1})        pre-norm: the same with the norm inside r, and one norm behind each stack

Legend: B batch, S source positions, T target positions, H heads, D head size, E model width, V vocabulary.
Source: Vaswani et al. 2017, "Attention Is All You Need", section 3 and figure 1; Junczys-Dowmunt et al. 2018, "Marian";
Lewis et al. 2020, "BART", section 2.1; Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture"
(pre-norm).
"""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive, require_token
from models.families.encoder_decoder import EncoderDecoder
from models.families.family import Family
from models.layers.attention import MultiHeadAttention
from models.layers.blocks import DecoderBlock, EncoderBlock
from models.layers.embedding import TiedEmbedding
from models.layers.mlp import ACTIVATIONS, MLP, Activation
from models.layers.positional import LearnedPositionTable, SinusoidalPositions
from models.layers.residual import RESIDUALS, Order

Positions = Literal["interleaved", "concatenated", "learned"]
BART_OFFSET = 2  # its tables begin with two rows that nothing reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2SeqConfig:
    """What one Transformer encoder-decoder differs from another in.

    Attributes:
        vocabulary_size: V, of the source and of the target.
        layers: N, of the encoder and, where ``decoder_layers`` is not given, of the decoder.
        decoder_layers: blocks of the decoder.
        width: E, ``d_model`` of the paper.
        heads: H.
        mlp_width: inner width of the feed-forward network, ``d_ff`` of the paper.
        max_source_length: longest source, in tokens.
        max_target_length: M, longest target including the start token.
        norm_order: ``post`` as in the paper, or ``pre``.
        activation: of the feed-forward network.
        positions: sinusoids, ``interleaved`` as in the paper or ``concatenated`` as in Marian, or ``learned`` tables,
            one for sources and one for targets, as in BART.
        scaled_embedding: whether embeddings are multiplied by √E.
        embedding_norm: whether embeddings with their positions are normalised.
        tied: whether one matrix serves sources, targets and logits; otherwise each has its own.
        logits_bias: whether a stored vector, which is not trained, is added to the logits.
        dropout: rate during training.
        attention_bias: whether the four attention projections have biases.
        norm_eps: ε of every layer normalisation.
        pad_token, start_token, end_token: token ids; some models start with padding, some with the end.
    """

    vocabulary_size: int
    layers: int = 6
    decoder_layers: int | None = None
    width: int = 512
    heads: int = 8
    mlp_width: int = 2048
    max_source_length: int = 512
    max_target_length: int = 512
    norm_order: Order = "post"
    activation: Activation = "relu"
    positions: Positions = "interleaved"
    scaled_embedding: bool = True
    embedding_norm: bool = False
    tied: bool = True
    logits_bias: bool = False
    dropout: float = 0.1
    attention_bias: bool = True
    norm_eps: float = 1e-5
    pad_token: int = 0
    start_token: int = 1
    end_token: int = 2

    def __post_init__(self) -> None:
        require_positive(self, "vocabulary_size", "layers", "decoder_blocks", "width", "heads", "mlp_width")
        require_positive(self, "max_source_length", "max_target_length")
        require_fraction(self, "dropout", "norm_eps")
        require_choice(self, "norm_order", RESIDUALS)
        require_choice(self, "activation", ACTIVATIONS)
        require_choice(self, "positions", get_args(Positions))
        require_bool(self, "scaled_embedding", "embedding_norm", "tied", "logits_bias", "attention_bias")
        require(self.width % self.heads == 0, f"width to be a multiple of {self.heads} heads", self.width)
        even = self.positions == "learned" or self.width % 2 == 0
        require(even, "an even width, half sines and half cosines", self.width)
        require_token(self, self.vocabulary_size, "pad_token", "start_token", "end_token")

    @property
    def head_size(self) -> int:
        """D, the width of one head."""
        return self.width // self.heads

    @property
    def decoder_blocks(self) -> int:
        """How many blocks of the decoder keep keys and values."""
        return self.layers if self.decoder_layers is None else self.decoder_layers


class StackConfig(Protocol):
    """What decides the parts of a stack with absolute positions; see :class:`Seq2SeqConfig`."""

    @property
    def width(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def mlp_width(self) -> int:
        """Inner width of the feed-forward network."""

    @property
    def norm_order(self) -> Order: ...

    @property
    def norm_eps(self) -> float: ...

    @property
    def activation(self) -> Activation: ...

    @property
    def positions(self) -> Positions:
        """Sinusoids or learned tables."""

    @property
    def embedding_norm(self) -> bool:
        """Whether embeddings with their positions are normalised."""

    @property
    def attention_bias(self) -> bool:
        """Whether the attention projections have biases."""

    @property
    def dropout(self) -> float: ...


class PositionalEncoding(nn.Module):
    """Positions on embedded tokens, then the norm that some models have there, and dropout.

    Args:
        config: of the stack.
        length: number of positions.
        offset: rows before that of position 0 in a learned table.
    """

    def __init__(self, config: StackConfig, length: int, offset: int = BART_OFFSET) -> None:
        super().__init__()
        self.positions = _positions(config.positions, length, config.width, offset)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, embedded: Tensor, positions: Tensor) -> Tensor:
        """``[B, S, E]`` at int64 positions ``[B or 1, S]`` → ``[B, S, E]``."""
        encoded: Tensor = self.dropout(self.norm(embedded + self.positions(positions)))
        return encoded


class Seq2SeqTransformer(EncoderDecoder):
    """Encoder and decoder with absolute positions."""

    logits_bias: Tensor | None

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        scale = config.width**0.5 if config.scaled_embedding else 1.0
        self.embedding = TiedEmbedding(config.vocabulary_size, config.width, scale)
        self.target_embedding = None if config.tied else TiedEmbedding(config.vocabulary_size, config.width, scale)
        self.source_encoding = PositionalEncoding(config, config.max_source_length)
        self.target_encoding = PositionalEncoding(config, config.max_target_length)
        self.encoder = nn.ModuleList(_encoder_block(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(decoder_block(config) for _ in range(config.decoder_blocks))
        self.encoder_end = end_of_stack(config)
        self.decoder_end = end_of_stack(config)
        self.head = None if config.tied else nn.Linear(config.width, config.vocabulary_size, bias=False)
        self.register_buffer("logits_bias", torch.zeros(config.vocabulary_size) if config.logits_bias else None)

    def embed_source(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        encoded: Tensor = self.source_encoding(self.embedding(token_ids), positions)
        return encoded

    def embed_target(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        embedding = self.embedding if self.target_embedding is None else self.target_embedding
        encoded: Tensor = self.target_encoding(embedding(token_ids), positions)
        return encoded

    def logits(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.embedding.logits(hidden) if self.head is None else self.head(hidden)
        return scores if self.logits_bias is None else scores + self.logits_bias


def decoder_block(config: StackConfig, source_width: int | None = None) -> DecoderBlock:
    """One block; keys and values of its cross-attention are projected from vectors of E, or of the given width."""
    cross = MultiHeadAttention(config.width, config.heads, config.attention_bias, source_width=source_width)
    return DecoderBlock(_attention(config), cross, _mlp(config), lambda: _residual(config))


def end_of_stack(config: StackConfig) -> nn.Module:
    """The norm behind a stack of pre-norm blocks, which ends in a sum that nothing has normalised yet."""
    return nn.LayerNorm(config.width, eps=config.norm_eps) if config.norm_order == "pre" else nn.Identity()


def _positions(kind: Positions, length: int, width: int, offset: int) -> nn.Module:
    if kind == "learned":
        return LearnedPositionTable(length, width, offset)
    return SinusoidalPositions(length, width, kind)


def _encoder_block(config: StackConfig) -> EncoderBlock:
    return EncoderBlock(_attention(config), _mlp(config), lambda: _residual(config))


def _attention(config: StackConfig) -> MultiHeadAttention:
    return MultiHeadAttention(config.width, config.heads, config.attention_bias)


def _mlp(config: StackConfig) -> MLP:
    return MLP(config.width, config.mlp_width, config.activation)


def _residual(config: StackConfig) -> nn.Module:
    return RESIDUALS[config.norm_order](config.width, config.norm_eps, config.dropout)


FAMILY = Family(name="seq2seq", graphs="translate", config=Seq2SeqConfig, build=Seq2SeqTransformer)
