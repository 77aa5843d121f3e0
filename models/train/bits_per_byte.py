"""How many bits a model of text needs for each byte of texts that it never saw.

    bits per byte = −Σ log₂ p(token | the tokens before it) / UTF-8 bytes of the texts

The texts of a module are one stream, the end-of-text token before, between and behind them. Every token but the first
is scored once, those between the texts too: their bits count, though they have no byte. Bits per byte compare models
whatever their tokens are; bits per token would not.

Legend: S positions of a window, V vocabulary.
Source: Gao et al. 2020, "The Pile: An 800GB Dataset of Diverse Text for Language Modeling", section 3.1.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsPerByte:
    """What a model needs, and what simpler ones need for the same bytes.

    Attributes:
        model: bits per byte.
        baselines: the same of others, by name.
        size: UTF-8 bytes of the texts.
    """

    model: float
    baselines: dict[str, float]
    size: int

    def __str__(self) -> str:
        others = "; ".join(f"{name}: {value:.3f}" for name, value in self.baselines.items())
        return f"{self.model:.3f} ({others}) over {self.size:,} bytes"


@torch.no_grad()
def decoder_bits(model: nn.Module, stream: Sequence[int], window: int) -> float:
    """The bits of a stream's tokens but the first, by a decoder that sees ``window`` tokens at most.

    Behind the first window each token is scored after at least half a window.
    """
    tokens_N = torch.tensor(stream)
    nats = 0.0
    for begin, end, fresh in windows(len(stream) - 1, window):
        logits_SV: Tensor = model(tokens_N[None, begin:end])[0]
        targets_S = tokens_N[begin + 1 : end + 1]
        nats += F.cross_entropy(logits_SV[fresh:], targets_S[fresh:], reduction="sum").item()
    return nats / math.log(2)


def windows(length: int, window: int) -> Iterator[tuple[int, int, int]]:
    """Cover positions by windows that overlap by half: begin, end, and how many positions an earlier one had."""
    done = 0
    while done < length:
        begin = max(0, done - window // 2)
        end = min(begin + window, length)
        yield begin, end, done - begin
        done = end
