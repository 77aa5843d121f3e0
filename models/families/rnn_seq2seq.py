"""The recurrent encoder-decoder, with one fixed context or with additive attention.

    h_j = encoder(x_j, h_{j−1}), forwards or both ways            s_0 = tanh(W_s h_last), m_0 = W_m m_last
    without attention   c_i = h_T, or [h→_T ; h←_1]                s_i = g(s_{i−1}, y_{i−1}, c_i)
    with attention      c_i = Σ_j α_ij h_j, α_i from s_{i−1}       s_i = g(s_{i−1}, y_{i−1}, c_i)
    plain output        logits_i = W s_i + b                       maxout output from s_{i−1}, y_{i−1} and c_i

h_last and m_last (the LSTM's memory cell) are those of the encoder's last direction: h_T, or h←_1 of the backward one.

Legend: B batch, S source positions, T target positions, E width of an embedding, N directions, H width of a state,
C width of an annotation and a context, N·H, A width of the alignment network, V vocabulary of the target.
Source: with attention Bahdanau, Cho and Bengio 2015, section 3 and appendix A.2; without it Cho et al. 2014, "Learning
Phrase Representations using RNN Encoder-Decoder", appendix A.1, where c feeds every step, not only the first as in Sutskever
et al. 2014, "Sequence to Sequence Learning with Neural Networks". The papers have no LSTM with s_0 from a layer of its own:
m_0 is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from models.config import require, require_fraction, require_positive
from models.layers.additive_attention import AdditiveAttention
from models.layers.deep_output import DeepOutput
from models.layers.recurrent import CELLS, Cell, Recurrent, States, state_count

Attention = Literal["none", "additive"]


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
        require(self.cell in CELLS, f"a cell, one of {CELLS}", repr(self.cell))
        require(self.attention in get_args(Attention), f"attention, one of {get_args(Attention)}", repr(self.attention))
        require(type(self.bidirectional) is bool, "bidirectional to be true or false", repr(self.bidirectional))
        aligned = self.alignment_width is not None
        require(aligned == self.attends, "an alignment_width just where there is attention", self.alignment_width)
        specials = (self.pad_token, self.start_token, self.end_token)
        smallest = min(self.source_vocabulary_size, self.target_vocabulary_size)
        inside = all(type(token) is int and 0 <= token < smallest for token in specials)
        require(len(set(specials)) == 3 and inside, "three different special tokens inside the vocabularies", specials)

    @property
    def attends(self) -> bool:
        """Whether there is attention."""
        return self.attention == "additive"

    @property
    def context_width(self) -> int:
        """C, the width of an annotation and of a context."""
        return self.hidden_width * (2 if self.bidirectional else 1)

    @property
    def states(self) -> int:
        """How many tensors the decoder carries from step to step: two for the LSTM."""
        return state_count(self.cell)


class Encoded(NamedTuple):
    """What the decoder keeps of a source.

    Attributes:
        memory: with attention the annotations ``[B, S, C]`` and their keys ``[B, S, A]``; without the context ``[B, C]``.
        states: the decoder's first states, ``[B, H]`` each.
    """

    memory: tuple[Tensor, ...]
    states: States


class Decoded(NamedTuple):
    """What the decoder says of some positions.

    Attributes:
        logits: ``[B, T, V]``.
        states: those behind the last position, ``[B, H]`` each.
        alignments: the weights α ``[B, T, S]``; none without attention.
    """

    logits: Tensor
    states: States
    alignments: Tensor | None


class RecurrentSeq2Seq(nn.Module):
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
        self.attention, self.deep_output, self.output = None, None, None
        if config.alignment_width is not None:
            self.attention = AdditiveAttention(hidden, context, config.alignment_width)
        if config.maxout_width is not None:
            width = hidden + embedding + context
            self.deep_output = DeepOutput(width, config.maxout_width, config.target_vocabulary_size)
        else:
            self.output = nn.Linear(hidden, config.target_vocabulary_size)
