"""Recurrent layers over padded batches: the plain cell, the LSTM and the GRU, in one direction or in both.

    rnn    h_t = tanh(a),  a = W x_t + b + R h_{t-1} + d
    lstm   m_t = f ⊙ m_{t-1} + i ⊙ tanh(a_g)                       h_t = o ⊙ tanh(m_t)
    gru    n = tanh(W_n x_t + b_n + r ⊙ (R_n h_{t-1} + d_n))       h_t = (1 − z) ⊙ n + z ⊙ h_{t-1}
    gates  i, f, o, r, z: the sigmoid of their rows of a           two directions: [h→_t ; h←_t]

Legend: B batch, S positions, E width of an input, N directions, H width of a state.
Source: Elman 1990, "Finding Structure in Time"; Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
2000; Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder"; Schuster and Paliwal 1997. Cho's GRU
applies r before R_n; torch, cuDNN and ONNX with ``linear_before_reset=1`` apply it behind, as here.

While a graph is traced the layer is one custom operator, so that the exporter can write it as the one ONNX node RNN,
LSTM or GRU. The LSTM's memory cell is m, never c: that is the context of attention.
"""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attendant.config import require

Cell = Literal["rnn", "lstm", "gru"]
CELLS: tuple[Cell, ...] = get_args(Cell)
States = tuple[Tensor, ...]
"""The hidden state of a layer and, for the LSTM, its memory cell."""

_KINDS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Recurrent(nn.Module):
    """One recurrent layer.

    Args:
        cell: rnn, lstm or gru.
        input_width: E.
        width: H, of each direction.
        bidirectional: whether a second set of weights reads the sequence from its end.
    """

    def __init__(self, cell: Cell, input_width: int, width: int, bidirectional: bool = False) -> None:
        super().__init__()
        require(cell in CELLS, f"a cell, one of {CELLS}", repr(cell))
        self.cell = cell
        self.cells = _KINDS[cell](input_width, width, batch_first=True, bidirectional=bidirectional)

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, initial: States | None = None
    ) -> tuple[Tensor, States]:
        """Read sequences.

        Args:
            inputs: ``[B, S, E]``.
            mask: bool ``[B, S]``, true at each row's tokens and false at the padding behind them; no padding if absent.
            initial: hidden state, and memory cell of the LSTM, ``[N, B, H]`` each; zeros if absent.

        Returns:
            The hidden states ``[B, S, N·H]``, zero at padding, and each row's last states, ``[N, B, H]`` each: at its
            last token for the first direction, at its first token for the second. A row of padding alone gets zeros.
        """
        lengths_B = None if mask is None else mask.sum(1)
        if not torch.compiler.is_exporting():
            return _read(self.cells, inputs, lengths_B, initial)
        weights = list(self.cells.parameters())
        outputs_BSH, *last = recurrent(
            inputs, lengths_B, list(initial or ()), weights, self.cell, self.cells.bidirectional
        )
        return outputs_BSH, tuple(last[: state_count(self.cell)])


def state_count(cell: str) -> int:
    """How many tensors a cell carries from one position to the next: two for the LSTM."""
    return 2 if cell == "lstm" else 1


@torch.library.custom_op("attendant::recurrent", mutates_args=())
def recurrent(
    inputs: Tensor,
    lengths: Tensor | None,
    initial: list[Tensor],
    weights: list[Tensor],
    cell: str,
    bidirectional: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The layer as one operator of its tensors.

    Args:
        inputs: ``[B, S, E]``.
        lengths: int64 ``[B]``, or none.
        initial: hidden state, and memory cell of the LSTM, ``[N, B, H]`` each; empty for zeros.
        weights: W, R, b and d of each direction, their gates in the order of ``torch.nn``: i, f, g, o and r, z, n.
        cell: rnn, lstm or gru.
        bidirectional: N = 2.

    Returns:
        The hidden states ``[B, S, N·H]``, the last ones ``[N, B, H]``, and the last memory cells ``[N, B, H]``, with no
        elements where there are none.
    """
    width, input_width = weights[1].shape[1], weights[0].shape[1]
    cells = _KINDS[cell](input_width, width, batch_first=True, bidirectional=bidirectional, device="meta")
    names = [name for name, _ in cells.named_parameters()]
    cells.load_state_dict(dict(zip(names, weights, strict=True)), assign=True)
    outputs_BSH, last = _read(cells, inputs, lengths, tuple(initial) or None)
    memory_NBH = last[1] if len(last) > 1 else inputs.new_empty(0)
    return outputs_BSH.contiguous(), last[0].contiguous(), memory_NBH.contiguous()


@recurrent.register_fake
def _(
    inputs: Tensor,
    lengths: Tensor | None,
    initial: list[Tensor],
    weights: list[Tensor],
    cell: str,
    bidirectional: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    batch, positions, _ = inputs.shape
    directions, width = 1 + bidirectional, weights[1].shape[1]
    last_NBH = inputs.new_empty(directions, batch, width)
    memory_NBH = torch.empty_like(last_NBH) if state_count(cell) == 2 else inputs.new_empty(0)
    return inputs.new_empty(batch, positions, directions * width), last_NBH, memory_NBH


RECURRENT: object = torch.ops.attendant.recurrent.default
"""What stands in a traced graph, for the exporter's table of translations."""


def _read(
    cells: nn.RNNBase, inputs_BSE: Tensor, lengths_B: Tensor | None, initial: States | None
) -> tuple[Tensor, States]:
    start = initial[0] if initial and len(initial) == 1 else initial
    if lengths_B is None:
        outputs_BSH, last = cells(inputs_BSE, start)
        return outputs_BSH, _tuple(last)
    lengths = lengths_B.clamp(min=1).cpu()  # torch packs no row without a token
    packed = pack_padded_sequence(inputs_BSE, lengths, batch_first=True, enforce_sorted=False)
    outputs, last = cells(packed, start)
    outputs_BSH, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs_BSE.shape[1])
    empty_B11 = (lengths_B == 0)[:, None, None]
    return outputs_BSH.masked_fill(empty_B11, 0), tuple(state.masked_fill(empty_B11[:, 0], 0) for state in _tuple(last))


def _tuple(last: Tensor | States) -> States:
    return (last,) if isinstance(last, Tensor) else tuple(last)
