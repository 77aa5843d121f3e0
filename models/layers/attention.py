"""Multi-head scaled dot-product attention; several query heads may share one key and value head.

    Attention(Q, K, V) = softmax(Q Kᵀ / √D + bias + mask) V        MultiHead = Concat(head_1 … head_H) W_O
    query head h attends with key and value head ⌊h G / H⌋

Legend: B batch, S query positions, T attended positions, H query heads, G key and value heads, D head size, E model
width, F width of a projection.
Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.2.1 and 3.2.2; Ainslie et al. 2023, "GQA: Training
Generalized Multi-Query Transformer Models", section 2.2 (grouped heads); Henry et al. 2020, "Query-Key Normalization
for Transformers" (normalised queries and keys, in Qwen3's form: an RMSNorm over each head).
"""

from collections.abc import Sequence

from torch import Tensor, nn

from attendant.config import require
from models.layers.attend import Attend
from models.layers.joined import Joining
from models.layers.kv_cache import InPlaceWriter, Remember
from models.layers.rope import Rotation


class MultiHeadAttention(Joining):
    """Project, attend in every head, join the heads and project again.

    The two halves are public because a cached decoder keeps the keys and values between calls.

    Args:
        width: E.
        heads: H.
        bias: whether the projections of queries, keys and values have biases.
        kv_heads: G; H if not given.
        head_size: D; E / H if not given.
        source_width: of what keys and values are projected from; E if not given.
        output_bias: whether the output projection has one; as ``bias`` if not given.
        scale: of the scores; 1/√D if not given.
        query_key_eps: ε of an RMSNorm over each head of queries and keys; no such norm if not given.

    Raises:
        ConfigError: the width is not a multiple of the heads and no head size is given, or the heads cannot be grouped.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        bias: bool = True,
        *,
        kv_heads: int | None = None,
        head_size: int | None = None,
        source_width: int | None = None,
        output_bias: bool | None = None,
        scale: float | None = None,
        query_key_eps: float | None = None,
    ) -> None:
        super().__init__()
        if head_size is None:
            require(width % heads == 0, f"a width that is a multiple of {heads} heads", width)
            head_size = width // heads
        groups = heads if kv_heads is None else kv_heads
        source = width if source_width is None else source_width
        require(
            groups > 0 and heads % groups == 0, f"{heads} heads to be a multiple of the key and value heads", groups
        )
        self.head_size = head_size
        self.attend = Attend(scale)
        self.query = nn.Linear(width, heads * head_size, bias=bias)
        self.key = nn.Linear(source, groups * head_size, bias=bias)
        self.value = nn.Linear(source, groups * head_size, bias=bias)
        self.output = nn.Linear(heads * head_size, width, bias=bias if output_bias is None else output_bias)
        self.query_norm = _head_norm(head_size, query_key_eps)
        self.key_norm = _head_norm(head_size, query_key_eps)

    def keys_and_values(self, source: Tensor, rotation: Rotation | None = None) -> tuple[Tensor, Tensor]:
        """Project a source ``[B, T, E]`` to keys, rotated to their positions, and values: each ``[B, G, T, D]``."""
        k_BGTD: Tensor = self.key_norm(self._split(self.key(source)))
        return k_BGTD if rotation is None else rotation.apply(k_BGTD), self._split(self.value(source))

    def attend_to(
        self,
        inputs: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        bias: Tensor | None = None,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """Attend from inputs ``[B, S, E]`` to projected keys and values ``[B, G, T, D]``.

        Args:
            inputs: what the queries are made of.
            keys: already rotated, if they are to be.
            values: as many as keys.
            mask: as in :mod:`models.layers.attend`.
            bias: as in :mod:`models.layers.attend`.
            rotation: of the queries.

        Returns:
            ``[B, S, E]``.
        """
        q_BHSD: Tensor = self.query_norm(self._split(self.query(inputs)))
        if rotation is not None:
            q_BHSD = rotation.apply(q_BHSD)
        return self._join(self.attend(q_BHSD, keys, values, mask, bias))

    def attend_behind(
        self,
        inputs: Tensor,
        remember: Remember,
        mask: Tensor,
        bias: Tensor | None = None,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """Self-attention of new positions ``[B, S, E]`` to themselves and to what is remembered before them.

        Args:
            inputs: what queries, keys and values are made of.
            remember: from the new positions' keys and values ``[B, G, S, D]`` to those to attend to.
            mask: bool, over new positions and what ``remember`` returns.
            bias: as in :mod:`models.layers.attend`.
            rotation: of queries and keys.

        Returns:
            ``[B, S, E]``.
        """
        if self.attend.append is None or bias is not None:
            return self.attend_to(inputs, *remember(*self.keys_and_values(inputs, rotation)), mask, bias, rotation)
        outputs_BSE: Tensor = self.output(self.attend_projected(self._project(inputs), remember, mask, rotation))
        return outputs_BSE

    def attend_projected(
        self, projected: Sequence[Tensor], remember: Remember, mask: Tensor, rotation: Rotation | None = None
    ) -> Tensor:
        """The middle of :meth:`attend_behind`: from three projections ``[B, S, F]`` to joined heads ``[B, S, H D]``."""
        q_BHSD, k_BGSD, v_BGSD = self._heads(projected)
        found, at_once = None, self.attend.append if self.attend.observer is None else None
        if at_once is not None and isinstance(remember, InPlaceWriter):
            found = at_once(q_BHSD, k_BGSD, v_BGSD, rotation, remember.present, remember.start, mask, self.attend.scale)
        if found is None:
            if rotation is not None:
                q_BHSD, k_BGSD = rotation.apply(q_BHSD), rotation.apply(k_BGSD)
            found = self.attend(q_BHSD, *remember(k_BGSD, v_BGSD), mask)
        return found.transpose(1, 2).flatten(2)

    def forward(self, inputs: Tensor, source: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        """Attend from inputs ``[B, S, E]`` to a source ``[B, T, E]``; mask and bias: see :meth:`attend_to`."""
        if self.joined is not None and source is inputs:
            return self._join(self.attend(*self._heads(self._project(inputs)), mask, bias))
        return self.attend_to(inputs, *self.keys_and_values(source), mask, bias)

    def joinable(self) -> tuple[nn.Linear, ...]:
        """Queries, keys and values, where they can be made of one input."""
        same = self.query.in_features == self.key.in_features
        return (self.query, self.key, self.value) if same else ()

    def _project(self, inputs: Tensor) -> Sequence[Tensor]:
        return self.joined(inputs) if self.joined else [self.query(inputs), self.key(inputs), self.value(inputs)]

    def _heads(self, projected: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of three projections ``[B, S, F]``, none of them rotated."""
        q_BHSD, k_BGSD, v_BGSD = map(self._split, projected)
        return self.query_norm(q_BHSD), self.key_norm(k_BGSD), v_BGSD

    def _join(self, heads_BHSD: Tensor) -> Tensor:
        joined_BSE: Tensor = self.output(heads_BHSD.transpose(1, 2).flatten(2))
        return joined_BSE

    def _split(self, x_BSF: Tensor) -> Tensor:
        batch, length, width = x_BSF.shape
        return x_BSF.view(batch, length, width // self.head_size, self.head_size).transpose(1, 2)


def _head_norm(head_size: int, eps: float | None) -> nn.Module:
    return nn.Identity() if eps is None else nn.RMSNorm(head_size, eps=eps)
