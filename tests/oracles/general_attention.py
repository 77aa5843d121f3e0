"""The general attention layer: any score, any softmax temperature, any vectors as queries, keys and values.

    e_ij = score(q_i, k_j)        a_i = softmax_j(e_ij / τ)        y_i = Σ_j a_ij v_j
    dot: q·k        scaled dot: q·k / √K        general: qᵀ W k
    k = x W_k and v = x W_v; in self-attention q = x W_q as well

A score may be any function; as the temperature τ rises the weights become even, as it falls the best key takes all.

Legend: B batch, M queries, N inputs, D input width, K key width, U value width.
Source: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.1 (dot and
general); Vaswani et al. 2017, section 3.2.1 (scale and projections; the scale is the key's width, not the input's);
Hinton et al. 2015, "Distilling the Knowledge in a Neural Network", section 2 (temperature).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor, nn

from attendant.config import require

Score = Callable[[Tensor, Tensor], Tensor]


def dot(q_BMK: Tensor, k_BNK: Tensor) -> Tensor:
    """Scores ``[B, M, N]`` of queries and keys: their inner products."""
    return q_BMK.matmul(k_BNK.transpose(1, 2))


def scaled_dot(q_BMK: Tensor, k_BNK: Tensor) -> Tensor:
    """Scores ``[B, M, N]``: inner products over √K, of variance one where the vectors' entries have it."""
    return dot(q_BMK, k_BNK) / math.sqrt(q_BMK.shape[-1])


class General(nn.Module):
    """A learned bilinear score; queries and keys may differ in width."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(key_width, query_width, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores ``[B, M, N]`` of queries ``[B, M, query width]`` and keys ``[B, N, key width]``."""
        return dot(queries, self.projection(keys))


def attention(
    q_BMK: Tensor, k_BNK: Tensor, v_BNU: Tensor, score: Score = scaled_dot, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Mix the values, each query by its own weights.

    Args:
        q_BMK: queries.
        k_BNK: keys.
        v_BNU: values, one a key; the keys themselves in the layer's first stages.
        score: from queries and keys to ``[B, M, N]``.
        temperature: τ, above 0.

    Returns:
        The mixtures ``[B, M, U]``, and the weights ``[B, M, N]``.

    Raises:
        ConfigError: the temperature is not a finite positive number.
    """
    _require_temperature(temperature)
    weights_BMN = (score(q_BMK, k_BNK) / temperature).softmax(dim=-1)
    return weights_BMN @ v_BNU, weights_BMN


class GeneralAttention(nn.Module):
    """Queries from anywhere, keys and values projected from one set of inputs.

    Args:
        width: D.
        key_width: K, which the queries have as well unless the score says otherwise.
        value_width: U.
        score: from queries and keys to ``[B, M, N]``.
        temperature: τ, above 0.

    Raises:
        ConfigError: the temperature is not a finite positive number.
    """

    def __init__(
        self, width: int, key_width: int, value_width: int, score: Score = scaled_dot, temperature: float = 1.0
    ) -> None:
        super().__init__()
        _require_temperature(temperature)
        self.score, self.temperature = score, temperature
        self.key = nn.Linear(width, key_width, bias=False)
        self.value = nn.Linear(width, value_width, bias=False)

    def forward(self, queries: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Attend from ``[B, M, K]`` to ``[B, N, D]``: mixtures ``[B, M, U]`` and weights ``[B, M, N]``."""
        return attention(queries, self.key(inputs), self.value(inputs), self.score, self.temperature)


class SelfAttention(nn.Module):
    """General attention whose queries are projected from the inputs too; it knows nothing of their order.

    Args:
        width: D.
        key_width: K.
        value_width: U.
        score: from queries and keys to ``[B, N, N]``.
        temperature: τ, above 0.

    Raises:
        ConfigError: the temperature is not a finite positive number.
    """

    def __init__(
        self, width: int, key_width: int, value_width: int, score: Score = scaled_dot, temperature: float = 1.0
    ) -> None:
        super().__init__()
        self.query = nn.Linear(width, key_width, bias=False)
        self.attention = GeneralAttention(width, key_width, value_width, score, temperature)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Attend within ``[B, N, D]``: mixtures ``[B, N, U]`` and weights ``[B, N, N]``."""
        mixed: tuple[Tensor, Tensor] = self.attention(self.query(inputs), inputs)
        return mixed


def _require_temperature(temperature: float) -> None:
    valid = type(temperature) in (int, float) and 0 < temperature < math.inf
    require(valid, "a finite softmax temperature above 0", repr(temperature))
