"""Captioners of a CNN and an RNN, without attention or with spatial soft attention: Show, Attend and Tell.

    encoder        a_1 … a_L = CNN(pixels), z = ReLU(W a_mean + b)      h_0 = tanh(W_h z + b_h), m_0 = tanh(W_m z + b_m)
    no attention   c = h_0 in every step
    attention      c_t = β_t Σ_l w_tl a_l, weights w_t from h_{t−1}     β_t = σ(W_β h_{t−1} + b_β), or 1
    decoder        h_t = g(h_{t−1}, E y_{t−1}, c_t)                     logits: W h_t + b, or by the deep output

The LSTM's memory cell is m, never c: that is the context.

Legend: B batch, C channels, L positions of the grid, D width of an annotation, T target positions, E width of an
embedding, H width of a state, A width of the alignment network, V vocabulary.
Source: Xu et al. 2015, "Show, Attend and Tell", sections 3.1 and 4.2.1, and for the layers that the paper leaves open
its authors' code (arctic-captions, ``capgen.py``); without attention Vinyals et al. 2015, "Show and Tell", section 3.1,
but with the context in every step, as in Cho et al. 2014.
"""

from dataclasses import dataclass, field
from typing import get_args

import torch
from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive, require_token
from models.families.family import Family
from models.families.recurrent_decoder import Attention, RecurrentDecoder, RecurrentMemory
from models.layers.additive_attention import AdditiveAttention
from models.layers.conv_grid import ConvGrid, ConvGridConfig
from models.layers.deep_output import SummedOutput
from models.layers.recurrent import CELLS, Cell, Recurrent, state_count


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentCaptionerConfig:
    """Sizes of a captioner; those of Show, Attend and Tell for COCO if not given.

    Attributes:
        vocabulary_size: V.
        image_size: side of the square image, in pixels.
        channels: C.
        grid: the CNN.
        cell: rnn, lstm or gru.
        attention: none or additive.
        alignment_width: A; none without attention.
        alignment_layers: linear layers between an annotation and its key, with a tanh behind all but the first.
        gated: whether β weighs the context; only with attention.
        deep_output: whether the scores also read the last word and the context; otherwise the state alone.
        embedding_width: E.
        hidden_width: H.
        max_target_length: longest target including the start token.
        dropout: rate during training, of embeddings and of the states that the output layer reads.
        pad_token, start_token, end_token: token ids.
    """

    vocabulary_size: int
    image_size: int = 224
    channels: int = 3
    grid: ConvGridConfig = field(default_factory=ConvGridConfig)
    cell: Cell = "lstm"
    attention: Attention = "additive"
    alignment_width: int | None = 512
    alignment_layers: int = 2
    gated: bool = True
    deep_output: bool = True
    embedding_width: int = 512
    hidden_width: int = 1800
    max_target_length: int = 100
    dropout: float = 0.5
    pad_token: int = 0
    start_token: int = 1
    end_token: int = 2

    def __post_init__(self) -> None:
        require_positive(self, "vocabulary_size", "image_size", "channels", "embedding_width", "hidden_width")
        require_positive(self, "max_target_length", "alignment_layers")
        require(type(self.grid) is ConvGridConfig, "grid to be a ConvGridConfig", type(self.grid).__name__)
        require_choice(self, "cell", CELLS)
        require_choice(self, "attention", get_args(Attention))
        require_bool(self, "gated", "deep_output")
        require_fraction(self, "dropout")
        if self.alignment_width is not None:
            require_positive(self, "alignment_width")
        aligned = self.alignment_width is not None
        require(aligned == self.attends, "an alignment_width just where there is attention", self.alignment_width)
        require(self.attends or not self.gated, "a gate only where there is attention", f"gated {self.gated}")
        stride = self.grid.stride
        require(self.image_size % stride == 0, f"image_size to be a multiple of {stride}", self.image_size)
        require_token(self, self.vocabulary_size, "pad_token", "start_token", "end_token")

    @property
    def attends(self) -> bool:
        return self.attention == "additive"

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """Of one image: channels, height, width."""
        return self.channels, self.image_size, self.image_size

    @property
    def source_length(self) -> int:
        return (self.image_size // self.grid.stride) ** 2

    @property
    def context_width(self) -> int:
        """Of a context: D, or H without attention."""
        return self.grid.width if self.attends else self.hidden_width

    @property
    def states(self) -> int:
        """How many tensors the decoder carries from step to step: two for the LSTM."""
        return state_count(self.cell)


class RecurrentCaptioner(RecurrentDecoder):
    """A CNN that reads an image, and the recurrent decoder of the translators."""

    def __init__(self, config: RecurrentCaptionerConfig) -> None:
        super().__init__()
        self.config = config
        seen, hidden, embedding = config.grid.width, config.hidden_width, config.embedding_width
        self.grid = ConvGrid(config.grid, config.channels)
        self.summary = nn.Sequential(nn.Linear(seen, seen), nn.ReLU())
        self.first_states = nn.ModuleList(nn.Linear(seen, hidden) for _ in range(config.states))
        self.target_embedding = nn.Embedding(config.vocabulary_size, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.decoder = Recurrent(config.cell, embedding + config.context_width, hidden)
        self.attention = _attention(config)
        self.gate = nn.Linear(hidden, 1) if config.gated else None
        self.output = (
            SummedOutput(hidden + config.context_width, embedding, config.vocabulary_size)
            if config.deep_output
            else nn.Linear(hidden, config.vocabulary_size)
        )

    def encode(self, pixels: Tensor) -> RecurrentMemory:
        """Read float images ``[B, C, height, width]``."""
        annotations_BLD = self.grid(pixels)
        summary_BD = self.summary(annotations_BLD.mean(1))
        states = tuple(torch.tanh(layer(summary_BD)) for layer in self.first_states)
        if self.attention is None:
            return RecurrentMemory((states[0],), states)
        return RecurrentMemory((annotations_BLD, self.attention.keys(annotations_BLD)), states)

    def context(
        self, state: Tensor, memory: tuple[Tensor, ...], source_mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        context_BD, weights_BL = super().context(state, memory, source_mask)
        gated = context_BD if self.gate is None else torch.sigmoid(self.gate(state)) * context_BD
        return gated, weights_BL

    def align(self, pixels: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing that shows where it looked: logits ``[B, T, V]`` and the weights ``[B, T, L]``.

        Raises:
            ConfigError: the model has no attention.
        """
        require(self.config.attends, "a model with attention", self.config.attention, "align with another model")
        return self.decode_aligned(target_ids, self.encode(pixels))

    def forward(self, pixels: Tensor, target_ids: Tensor) -> Tensor:
        """Teacher forcing: images ``[B, C, height, width]``, shifted targets ``[B, T]`` → logits ``[B, T, V]``."""
        return self.decode(target_ids, self.encode(pixels))


def _attention(config: RecurrentCaptionerConfig) -> AdditiveAttention | None:
    if config.alignment_width is None:
        return None
    layers: list[nn.Module] = [nn.Linear(config.grid.width, config.alignment_width)]
    for _ in range(1, config.alignment_layers):
        layers += [nn.Linear(config.alignment_width, config.alignment_width), nn.Tanh()]
    return AdditiveAttention(config.hidden_width, config.grid.width, config.alignment_width, nn.Sequential(*layers))


FAMILY = Family(
    name="rnn_captioner", graphs="caption_recurrent", config=RecurrentCaptionerConfig, build=RecurrentCaptioner
)
