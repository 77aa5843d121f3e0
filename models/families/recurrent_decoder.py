"""What every recurrent decoder with a source does, be it text or pixels: one token after another, from its states.

    c_i = c, or Σ_j w_ij h_j with weights w_i from s_{i−1}        s_i = g(s_{i−1}, y_{i−1}, c_i)

Legend: B batch, S source positions, T target positions, E width of an embedding, H width of a state, C width of a
context, A width of the alignment network, V vocabulary of the target.
Source: Bahdanau, Cho and Bengio 2015, section 3; Cho et al. 2014, "Learning Phrase Representations using RNN
Encoder-Decoder", where a fixed c goes into every step.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from models.layers.additive_attention import AdditiveAttention
from models.layers.recurrent import Recurrent, States

Attention = Literal["none", "additive"]


class RecurrentMemory(NamedTuple):
    """What the decoder keeps of a source.

    Attributes:
        memory: the annotations ``[B, S, C]`` and their keys ``[B, S, A]``; without attention the context ``[B, C]``.
        states: the decoder's first states, ``[B, H]`` each.
    """

    memory: tuple[Tensor, ...]
    states: States


class RecurrentOutput(NamedTuple):
    """What the decoder says of some positions.

    Attributes:
        logits: ``[B, T, V]``.
        states: those behind the last position, ``[B, H]`` each.
        alignments: the weights ``[B, T, S]``; none without attention.
    """

    logits: Tensor
    states: States
    alignments: Tensor | None


class RecurrentDecoder(nn.Module):
    """The half that writes; a family fills it in, and adds the half that reads.

    Attributes:
        target_embedding: of the last token.
        dropout: of embeddings, and of the states that the output layer reads.
        decoder: the cell g.
        attention: none where the context is fixed.
        output: from states alone if linear, otherwise from states, embeddings and contexts, to logits.
    """

    target_embedding: nn.Embedding
    dropout: nn.Dropout
    decoder: Recurrent
    attention: AdditiveAttention | None
    output: nn.Module

    def decode(self, target_ids: Tensor, encoded: RecurrentMemory, source_mask: Tensor | None = None) -> Tensor:
        """Score every target position.

        Args:
            target_ids: int64 ``[B, T]``, shifted right: it begins with the start token.
            encoded: what the family's ``encode`` returned.
            source_mask: bool ``[B, S]``; no padding if None.

        Returns:
            Logits of the next token at each position, ``[B, T, V]``.
        """
        return self.step(target_ids, encoded.states, encoded.memory, source_mask).logits

    def decode_aligned(
        self, target_ids: Tensor, encoded: RecurrentMemory, source_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """:meth:`decode` that shows where it looked: logits ``[B, T, V]`` and the weights ``[B, T, S]``."""
        decoded = self.step(target_ids, encoded.states, encoded.memory, source_mask)
        assert decoded.alignments is not None
        return decoded.logits, decoded.alignments

    def step(
        self, target_ids: Tensor, states: States, memory: tuple[Tensor, ...], source_mask: Tensor | None = None
    ) -> RecurrentOutput:
        """Go on from given states, by one token or by several.

        Args:
            target_ids: int64 ``[B, T]``, T ≥ 1.
            states: the decoder's, ``[B, H]`` each.
            memory: of the source.
            source_mask: bool ``[B, S]``; not looked at without attention; no padding if None.
        """
        embedded_BTE = self.dropout(self.target_embedding(target_ids))
        hiddens, contexts, alignments = [], [], []
        for embedded_BE in embedded_BTE.unbind(1):
            context_BC, weights_BS = self.context(states[0], memory, source_mask)
            _, last = self.decoder(
                torch.cat([embedded_BE, context_BC], dim=1)[:, None], initial=tuple(state[None] for state in states)
            )
            states = tuple(state[0] for state in last)
            hiddens.append(states[0])
            contexts.append(context_BC)
            alignments += [] if weights_BS is None else [weights_BS]
        hiddens_BTH = self.dropout(torch.stack(hiddens, dim=1))
        others = [] if isinstance(self.output, nn.Linear) else [embedded_BTE, torch.stack(contexts, dim=1)]
        logits_BTV: Tensor = self.output(hiddens_BTH, *others)
        return RecurrentOutput(logits_BTV, states, torch.stack(alignments, dim=1) if alignments else None)

    def context(
        self, state: Tensor, memory: tuple[Tensor, ...], source_mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """What a state ``[B, H]`` reads in the memory: the context ``[B, C]``, and attention's weights ``[B, S]``."""
        if self.attention is None:
            return memory[0], None
        context_BC, weights_BS = self.attention(state, *memory, source_mask)
        return context_BC, weights_BS
