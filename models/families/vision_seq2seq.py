"""From pixels to text by Transformers alone: an encoder of images, and the decoder of the translators behind it.

    logits_t = head(decoder(y_{<t}; memory)),  memory = encoder(pixels), or its projection to the decoder's width

CPTR's decoder is the paper's; GPT-2 with cross-attention and TrOCR's, which is BART's, are settings of it.

Legend: B batch, C channels, S tokens of the image, T target positions, H heads, D head size, E width of the decoder,
V vocabulary.
Source: Liu et al. 2021, "CPTR: Full Transformer Network for Image Captioning", section 2; Li et al. 2021, "TrOCR",
section 2.1; Rothe et al. 2020, "Leveraging Pre-trained Checkpoints for Sequence Generation Tasks", section 2
(a language model as the decoder, with cross-attention added to every block).
"""

from dataclasses import dataclass
from typing import get_args

from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive, require_token
from models.families.encoder_decoder import CrossDecoder
from models.families.family import Family
from models.families.seq2seq import PositionalEncoding, Positions, decoder_block, end_of_stack
from models.families.vision_encoder import VisionEncoder, VisionEncoderConfig
from models.layers.embedding import TiedEmbedding
from models.layers.mlp import ACTIVATIONS, Activation
from models.layers.residual import RESIDUALS, Order


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionSeq2SeqConfig:
    """What one captioner differs from another in; without further words a field is the decoder's.

    Attributes:
        encoder: of the images.
        vocabulary_size: V.
        decoder_blocks: number of blocks.
        width: E.
        heads: H.
        mlp_width: inner width of the feed-forward network.
        max_target_length: longest target including the start token, for which a cache is kept.
        norm_order: ``post`` as in CPTR and TrOCR, or ``pre`` as in GPT-2.
        activation: of the feed-forward network.
        positions: sinusoids, ``interleaved`` or ``concatenated``, or a ``learned`` table.
        position_offset: rows of a learned table before that of position 0, which nothing reads; two in TrOCR.
        scaled_embedding: whether embeddings are multiplied by √E.
        embedding_norm: whether embeddings with their positions are normalised.
        tied: whether the logits use the embedding matrix.
        projected_memory: whether the encoder's output is projected to E before every cross-attention, which otherwise
            projects keys and values from the encoder's own width.
        dropout: rate during training.
        attention_bias: whether the attention projections have biases.
        norm_eps: ε of every layer normalisation.
        pad_token, start_token, end_token: token ids.
    """

    encoder: VisionEncoderConfig
    vocabulary_size: int
    decoder_blocks: int = 4
    width: int = 768
    heads: int = 12
    mlp_width: int = 3072
    max_target_length: int = 64
    norm_order: Order = "post"
    activation: Activation = "relu"
    positions: Positions = "interleaved"
    position_offset: int = 0
    scaled_embedding: bool = True
    embedding_norm: bool = False
    tied: bool = True
    projected_memory: bool = False
    dropout: float = 0.1
    attention_bias: bool = True
    norm_eps: float = 1e-5
    pad_token: int = 0
    start_token: int = 1
    end_token: int = 2

    def __post_init__(self) -> None:
        found = type(self.encoder)
        require(found is VisionEncoderConfig, "encoder to be a VisionEncoderConfig", found.__name__)
        require_positive(self, "vocabulary_size", "decoder_blocks", "width", "heads", "mlp_width", "max_target_length")
        require_fraction(self, "dropout", "norm_eps")
        require_choice(self, "norm_order", RESIDUALS)
        require_choice(self, "activation", ACTIVATIONS)
        require_choice(self, "positions", get_args(Positions))
        require_bool(self, "scaled_embedding", "embedding_norm", "tied", "projected_memory", "attention_bias")
        require(self.width % self.heads == 0, f"width to be a multiple of {self.heads} heads", self.width)
        even = self.positions == "learned" or self.width % 2 == 0
        require(even, "an even width, half sines and half cosines", self.width)
        rows = type(self.position_offset) is int and self.position_offset >= 0
        require(rows, "position_offset to be zero or a positive integer", repr(self.position_offset))
        require_token(self, self.vocabulary_size, "pad_token", "start_token", "end_token")

    @property
    def pixel_shape(self) -> tuple[int, ...]:
        return self.encoder.pixel_shape

    @property
    def source_length(self) -> int:
        return self.encoder.tokens

    @property
    def head_size(self) -> int:
        return self.width // self.heads


class VisionSeq2Seq(CrossDecoder):
    """Encoder of images and decoder of texts."""

    def __init__(self, config: VisionSeq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        seen = config.encoder.width
        self.encoder = VisionEncoder(config.encoder)
        self.memory_projection = nn.Linear(seen, config.width) if config.projected_memory else nn.Identity()
        scale = config.width**0.5 if config.scaled_embedding else 1.0
        self.embedding = TiedEmbedding(config.vocabulary_size, config.width, scale)
        self.target_encoding = PositionalEncoding(config, config.max_target_length, config.position_offset)
        source_width = config.width if config.projected_memory else seen
        self.decoder = nn.ModuleList(decoder_block(config, source_width) for _ in range(config.decoder_blocks))
        self.decoder_end = end_of_stack(config)
        self.head = None if config.tied else nn.Linear(config.width, config.vocabulary_size, bias=False)

    def encode(self, pixels: Tensor) -> Tensor:
        """Float images ``[B, C, height, width]`` → what the decoder attends to, ``[B, S, encoder's width or E]``."""
        memory: Tensor = self.memory_projection(self.encoder(pixels))
        return memory

    def embed_target(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        encoded: Tensor = self.target_encoding(self.embedding(token_ids), positions)
        return encoded

    def logits(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.embedding.logits(hidden) if self.head is None else self.head(hidden)
        return scores

    def forward(self, pixels: Tensor, target_ids: Tensor) -> Tensor:
        """Teacher forcing: images ``[B, C, height, width]``, shifted targets ``[B, T]`` → logits ``[B, T, V]``."""
        return self.decode(target_ids, self.encode(pixels))


FAMILY = Family(name="vision_seq2seq", graphs="caption", config=VisionSeq2SeqConfig, build=VisionSeq2Seq)
