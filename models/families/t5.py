"""T5: an encoder-decoder that knows distances instead of positions.

    block: x + f(RMSNorm(x)), no biases anywhere        scores: Q Kᵀ + bias(key position − query position)
    MLP, first version: ReLU(x W_1) W_2                 version 1.1: (GELU(x W_g) ⊙ x W_1) W_2
    logits, first version: (h / √E) Wᵀ, W the embedding      version 1.1: h W_oᵀ, a matrix of its own

Legend: B batch, S source positions, T target positions, H heads, D head size, E model width, V vocabulary.
Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section
2.1; Shazeer 2020, "GLU Variants Improve Transformer" (version 1.1); Mesh TensorFlow, ``transformer.py`` (the 1/√E of
the shared matrix, and no 1/√D, which its initial values make up for).
"""

from dataclasses import dataclass

from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive, require_token
from models.families.encoder_decoder import EncoderDecoder
from models.families.family import Family
from models.layers.attention import MultiHeadAttention
from models.layers.blocks import DecoderBlock, EncoderBlock
from models.layers.embedding import TiedEmbedding
from models.layers.mlp import ACTIVATIONS, MLP, Activation, GatedMLP
from models.layers.relative_position import RelativePositionBias
from models.layers.residual import PreNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class T5Config:
    """What one T5 differs from another in; the defaults are t5-small.

    Attributes:
        vocabulary_size: V.
        layers: blocks of the encoder and, where ``decoder_layers`` is not given, of the decoder.
        decoder_layers: blocks of the decoder.
        width: E.
        heads: H.
        head_size: D; H × D need not be E.
        mlp_width: inner width of the MLP.
        activation: of the MLP.
        gated_mlp: whether the MLP has a gate, as in version 1.1.
        tied: whether the logits use the embedding matrix, scaled by 1/√E, or, as in version 1.1, their own, unscaled.
        distance_buckets: how many ranges of distances have a bias of their own; in the encoder half of them lie ahead.
        longest_distance: the distance from which on all share one.
        max_source_length: longest source, in tokens; distances know no end, so any length has a meaning.
        max_target_length: M, longest target including the start token.
        dropout: rate during training, at both ends of each stack and behind every sublayer.
        norm_eps: ε of every norm.
        pad_token, start_token, end_token: token ids; T5 starts with padding.
    """

    vocabulary_size: int = 32128
    layers: int = 6
    decoder_layers: int | None = None
    width: int = 512
    heads: int = 8
    head_size: int = 64
    mlp_width: int = 2048
    activation: Activation = "relu"
    gated_mlp: bool = False
    tied: bool = True
    distance_buckets: int = 32
    longest_distance: int = 128
    max_source_length: int = 512
    max_target_length: int = 512
    dropout: float = 0.1
    norm_eps: float = 1e-6
    pad_token: int = 0
    start_token: int = 0
    end_token: int = 1

    def __post_init__(self) -> None:
        require_positive(self, "vocabulary_size", "layers", "decoder_blocks", "width", "heads", "head_size")
        require_positive(self, "mlp_width", "distance_buckets", "longest_distance")
        require_positive(self, "max_source_length", "max_target_length")
        require_fraction(self, "dropout", "norm_eps")
        buckets, longest = self.distance_buckets, self.longest_distance
        require(buckets % 2 == 0 and buckets >= 4, "distance_buckets to be even and at least 4", buckets)
        require(2 * longest > buckets, f"longest_distance above half of the {buckets} distance_buckets", longest)
        require_choice(self, "activation", ACTIVATIONS)
        require_bool(self, "gated_mlp", "tied")
        require_token(self, self.vocabulary_size, "pad_token", "start_token", "end_token")

    @property
    def decoder_blocks(self) -> int:
        """How many blocks of the decoder keep keys and values."""
        return self.layers if self.decoder_layers is None else self.decoder_layers


class T5(EncoderDecoder):
    """Encoder and decoder, each with one relative position bias for all of its blocks."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = TiedEmbedding(config.vocabulary_size, config.width, scale=1.0)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder_bias = _bias(config, bidirectional=True)
        self.decoder_bias = _bias(config, bidirectional=False)
        self.encoder = nn.ModuleList(_encoder_block(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(_decoder_block(config) for _ in range(config.decoder_blocks))
        self.encoder_end = _End(config)
        self.decoder_end = _End(config)
        self.head = None if config.tied else nn.Linear(config.width, config.vocabulary_size, bias=False)

    def embed_source(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(token_ids))
        return embedded

    def embed_target(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        return self.embed_source(token_ids, positions)

    def logits(self, hidden: Tensor) -> Tensor:
        if self.head is None:
            return self.embedding.logits(hidden * self.config.width**-0.5)
        scores: Tensor = self.head(hidden)
        return scores


class _End(nn.Module):
    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        ended: Tensor = self.dropout(self.norm(hidden))
        return ended


def _bias(config: T5Config, bidirectional: bool) -> RelativePositionBias:
    return RelativePositionBias(config.heads, config.distance_buckets, config.longest_distance, bidirectional)


def _encoder_block(config: T5Config) -> EncoderBlock:
    return EncoderBlock(_attention(config), _mlp(config), lambda: _residual(config))


def _decoder_block(config: T5Config) -> DecoderBlock:
    return DecoderBlock(_attention(config), _attention(config), _mlp(config), lambda: _residual(config))


def _attention(config: T5Config) -> MultiHeadAttention:
    return MultiHeadAttention(config.width, config.heads, bias=False, head_size=config.head_size, scale=1.0)


def _mlp(config: T5Config) -> nn.Module:
    if config.gated_mlp:
        return GatedMLP(config.width, config.mlp_width, config.activation)
    return MLP(config.width, config.mlp_width, config.activation, bias=False)


def _residual(config: T5Config) -> PreNorm:
    return PreNorm(config.width, config.norm_eps, config.dropout, "rms")


FAMILY = Family(name="t5", graphs="translate", config=T5Config, build=T5)
