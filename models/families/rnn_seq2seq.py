"""The recurrent encoder-decoder, with one fixed context or with additive attention.

    encoder             h_j = f(x_j, h_{j−1}), forwards or both ways       s_0 = tanh(W_s h_last), m_0 = W_m m_last
    no attention        c_i = h_T, or [h→_T ; h←_1]                        s_i = g(s_{i−1}, y_{i−1}, c_i)
    attention           c_i = Σ_j w_ij h_j, weights w_i from s_{i−1}       s_i = g(s_{i−1}, y_{i−1}, c_i)
    plain output        logits_i = W s_i + b                               maxout output: from s_i, y_{i−1} and c_i

h_last and the LSTM's memory cell m_last are of the encoder's last direction: h_T, or h←_1 where it reads both ways.

Legend: B batch, S source positions, T target positions, E width of an embedding, N directions, H width of a state,
C = N·H width of an annotation and of a context, A width of the alignment network, V vocabulary of the target.
Source: attention: Bahdanau, Cho and Bengio 2015, section 3 and appendix A.2. None: Cho et al. 2014, "Learning Phrase
Representations using RNN Encoder-Decoder", where c goes into every step; in Sutskever et al. 2014 it only
starts the decoder. m_0 is our addition: the papers that compute s_0 by a layer use no LSTM.
"""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive, require_token
from models.families.family import Family
from models.families.recurrent_decoder import Attention, RecurrentDecoder, RecurrentMemory
from models.layers.additive_attention import AdditiveAttention
from models.layers.deep_output import DeepOutput
from models.layers.recurrent import CELLS, Cell, Recurrent, state_count


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentSeq2SeqConfig:
    """Sizes of a recurrent encoder-decoder.

    Attributes:
        source_vocabulary_size, target_vocabulary_size: of the two embeddings; the second is V.
        cell: rnn, lstm or gru, of encoder and decoder.
        bidirectional: whether the encoder reads both ways.
        attention: none or additive.
        embedding_width: E.
        hidden_width: H, of the decoder and of each direction of the encoder.
        alignment_width: A; none without attention.
        maxout_width: units of the maxout output layer; none for a plain linear one.
        max_source_length: longest source, in tokens.
        max_target_length: longest target including the start token.
        dropout: rate during training, of the embeddings and of what the output layer reads.
        pad_token, start_token, end_token: token ids.
    """

    source_vocabulary_size: int
    target_vocabulary_size: int
    cell: Cell = "gru"
    bidirectional: bool = True
    attention: Attention = "additive"
    embedding_width: int = 620
    hidden_width: int = 1000
    alignment_width: int | None = 1000
    maxout_width: int | None = None
    max_source_length: int = 50
    max_target_length: int = 50
    dropout: float = 0.0
    pad_token: int = 0
    start_token: int = 1
    end_token: int = 2

    def __post_init__(self) -> None:
        require_positive(self, "source_vocabulary_size", "target_vocabulary_size", "embedding_width", "hidden_width")
        require_positive(self, "max_source_length", "max_target_length")
        optional = [name for name in ("alignment_width", "maxout_width") if getattr(self, name) is not None]
        require_positive(self, *optional)
        require_fraction(self, "dropout")
        require_choice(self, "cell", CELLS)
        require_choice(self, "attention", get_args(Attention))
        require_bool(self, "bidirectional")
        aligned = self.alignment_width is not None
        require(aligned == self.attends, "an alignment_width just where there is attention", self.alignment_width)
        smallest = min(self.source_vocabulary_size, self.target_vocabulary_size)
        require_token(self, smallest, "pad_token", "start_token", "end_token")
        specials = (self.pad_token, self.start_token, self.end_token)
        require(len(set(specials)) == 3, "three different special tokens", specials)

    @property
    def attends(self) -> bool:
        return self.attention == "additive"

    @property
    def context_width(self) -> int:
        """C, the width of an annotation and of a context."""
        return self.hidden_width * (2 if self.bidirectional else 1)

    @property
    def states(self) -> int:
        """How many tensors the decoder carries from step to step: two for the LSTM."""
        return state_count(self.cell)


class RecurrentSeq2Seq(RecurrentDecoder):
    """Encoder and decoder, each with an embedding of its own."""

    def __init__(self, config: RecurrentSeq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        embedding, hidden, context = config.embedding_width, config.hidden_width, config.context_width
        self.source_embedding = nn.Embedding(config.source_vocabulary_size, embedding)
        self.target_embedding = nn.Embedding(config.target_vocabulary_size, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Recurrent(config.cell, embedding, hidden, config.bidirectional)
        self.first_states = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(config.states))
        self.decoder = Recurrent(config.cell, embedding + context, hidden)
        self.attention = (
            AdditiveAttention(hidden, context, config.alignment_width) if config.alignment_width is not None else None
        )
        self.output = (
            DeepOutput(hidden + embedding + context, config.maxout_width, config.target_vocabulary_size)
            if config.maxout_width is not None
            else nn.Linear(hidden, config.target_vocabulary_size)
        )

    def encode(self, source_ids: Tensor, source_mask: Tensor | None) -> RecurrentMemory:
        """Read int64 ``[B, S]`` with a bool mask ``[B, S]``, false at the padding behind each row; None hides none."""
        annotations_BSC, last = self.encoder(self.dropout(self.source_embedding(source_ids)), source_mask)
        hidden_BH, *memory = (layer(state_NBH[-1]) for layer, state_NBH in zip(self.first_states, last, strict=True))
        states = (torch.tanh(hidden_BH), *memory)
        if self.attention is None:
            return RecurrentMemory((last[0].transpose(0, 1).flatten(1),), states)
        return RecurrentMemory((annotations_BSC, self.attention.keys(annotations_BSC)), states)

    def align(self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing that shows where it looked: logits ``[B, T, V]`` and the weights ``[B, T, S]``.

        Raises:
            ConfigError: the model has no attention.
        """
        require(self.config.attends, "a model with attention", self.config.attention, "align with another model")
        return self.decode_aligned(target_ids, self.encode(source_ids, source_mask), source_mask)

    def forward(self, source_ids: Tensor, source_mask: Tensor | None, target_ids: Tensor) -> Tensor:
        """Teacher forcing: sources ``[B, S]`` and shifted targets ``[B, T]`` → logits ``[B, T, V]``."""
        return self.decode(target_ids, self.encode(source_ids, source_mask), source_mask)


FAMILY = Family(name="rnn_seq2seq", graphs="translate_recurrent", config=RecurrentSeq2SeqConfig, build=RecurrentSeq2Seq)
