"""The encoder-only Transformer: BERT without a task of its own.

    x_0 = LayerNorm(token + position + token type)        pooled = tanh(W x_L[first token] + b)

Post-norm blocks between the two, as in the paper's encoder, with GELU.

Legend: B batch, S positions, E model width.
Source: Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", section
3 and figure 2.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive, require_token
from models.families.family import Family
from models.layers.attention import MultiHeadAttention
from models.layers.blocks import EncoderBlock
from models.layers.embedding import TiedEmbedding
from models.layers.masks import key_mask
from models.layers.mlp import ACTIVATIONS, MLP, Activation
from models.layers.positional import LearnedPositionTable
from models.layers.residual import PostNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """Sizes of an encoder-only Transformer; the defaults are BERT base, uncased.

    Attributes:
        vocabulary_size: of the tokens.
        token_types: how many kinds of text a sequence may consist of; BERT's two are its two sentences.
        layers: number of blocks.
        width: E.
        heads: number of attention heads.
        mlp_width: inner width of the MLP.
        activation: of the MLP.
        max_length: longest sequence, and the number of learned positions.
        dropout: rate during training, on embeddings and behind every sublayer.
        norm_eps: ε of every layer normalisation.
        pad_token: token id.
        pooler: whether a layer of its own pools, from the first token; without it the mean of all tokens is taken, as
            by sentence-transformers.
    """

    vocabulary_size: int = 30522
    token_types: int = 2
    layers: int = 12
    width: int = 768
    heads: int = 12
    mlp_width: int = 3072
    activation: Activation = "gelu"
    max_length: int = 512
    dropout: float = 0.1
    norm_eps: float = 1e-12
    pad_token: int = 0
    pooler: bool = True

    def __post_init__(self) -> None:
        require_positive(self, "vocabulary_size", "token_types", "max_length")
        require_positive(self, "layers", "width", "heads", "mlp_width")
        require_fraction(self, "dropout", "norm_eps")
        require(self.width % self.heads == 0, f"width to be a multiple of {self.heads} heads", self.width)
        require_choice(self, "activation", ACTIVATIONS)
        require_bool(self, "pooler")
        require_token(self, self.vocabulary_size, "pad_token")


class Encoder(nn.Module):
    """From tokens to a vector for each of them, and one for all."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TiedEmbedding(config.vocabulary_size, config.width, scale=1.0)
        self.positions = LearnedPositionTable(config.max_length, config.width)
        self.token_types = nn.Embedding(config.token_types, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.layers))
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None

    def forward(self, token_ids: Tensor, mask: Tensor, token_types: Tensor) -> tuple[Tensor, Tensor]:
        """Read sequences in both directions at once.

        Args:
            token_ids: int64 ``[B, S]``, the first of each row a token and no padding.
            mask: bool ``[B, S]``, false at padding; what stands there is finite and means nothing.
            token_types: int64 ``[B, S]``.

        Returns:
            A vector for each token ``[B, S, E]``, and the pooled one ``[B, E]``.
        """
        length = token_ids.shape[1]
        positions = torch.arange(length, device=token_ids.device)[None]
        hidden = self.embedding(token_ids) + self.token_types(token_types) + self.positions(positions)
        hidden = self.dropout(self.norm(hidden))
        keys = key_mask(mask, length)
        for block in self.blocks:
            hidden = block(hidden, keys)
        if self.pooler is not None:
            return hidden, torch.tanh(self.pooler(hidden[:, 0]))
        weights_BS1 = mask[:, :, None].to(hidden.dtype)
        return hidden, (hidden * weights_BS1).sum(1) / weights_BS1.sum(1)


def _block(config: EncoderConfig) -> EncoderBlock:
    attention = MultiHeadAttention(config.width, config.heads)
    mlp = MLP(config.width, config.mlp_width, config.activation)
    return EncoderBlock(attention, mlp, lambda: PostNorm(config.width, config.norm_eps, config.dropout))


FAMILY = Family(name="encoder", graphs="embed", config=EncoderConfig, build=Encoder)
