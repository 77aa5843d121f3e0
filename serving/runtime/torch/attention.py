"""Our own kernels in the place of torch's, where they can do what a layer asks for; torch's everywhere else.

A kernel takes no mask, but how many of a row's keys it sees. That is known of the masks that are inputs of the graph:
``self_mask`` shows a row's new positions what stands before them, ``start`` + T keys; a padding mask shows all queries
the keys that it counts. A mask that a layer has made anew (a window of positions), a bias, or heads without a kernel go
to torch. Windows of a map have a kernel of their own, gated MLPs one for what is between their products, and products
of one or two rows one with what is around them; of
additive attention torch's own are faster. On Hopper, many positions at once go by a kernel of its own in Gluon, where
the heads are such that there is one.

Legend: B batch, S new positions, T keys, M capacity, H query heads, G key and value heads, D head size.
"""

from collections.abc import Callable, Mapping
from typing import cast, get_args

import torch
from torch import Tensor, nn

from attendant.errors import ConfigError
from models.kernel_configs.decode_tiles import most_rows, splits_for
from models.kernel_configs.gpu_targets import target_of
from models.kernel_configs.heads import heads_of
from models.kernel_configs.specialisation import FloatType, type_name
from models.kernels.decode_append_attention import decode_append_attention
from models.kernels.decode_attention import decode_attention
from models.kernels.flash_attention import flash_attention
from models.kernels.gated_product import gated_product
from models.kernels.launch import lie_together
from models.kernels.rotate_append import rotate_append
from models.kernels.skinny_product import MOST_ROWS, skinny_product
from models.kernels.window_attention import window_attention
from models.layers.attend import attend_in_groups
from models.layers.joined import JoinedLinear
from models.layers.rope import Rotation

Prefill = Callable[[Tensor, Tensor, Tensor, Tensor, bool, float | None], Tensor]
"""Arguments and result as :func:`models.kernels.flash_attention.flash_attention`."""
_FEW = 8
"""New positions up to which a cache is read in splits."""
_MANY = 512
"""Keys from which the prefill of Hopper is faster: its warps take a while until they work side by side."""


class SkinnyProducts:
    """As :class:`models.layers.few_rows.FewRows`."""

    def takes(self, hidden: Tensor) -> bool:
        return hidden.numel() <= MOST_ROWS * hidden.shape[-1] and type_name(hidden.dtype) in get_args(FloatType)

    def multiply(
        self,
        inputs: Tensor,
        linear: JoinedLinear | nn.Linear,
        norm: nn.Module | None = None,
        residual: Tensor | None = None,
        gated: bool = False,
    ) -> Tensor:
        return skinny_product(
            inputs.contiguous(), linear.weight, linear.bias, cast(nn.RMSNorm | None, norm), residual, gated
        )


class FusedAttention:
    """What every attention layer of one model computes by."""

    def __init__(self, multiprocessors: int, hopper: Prefill | None = None) -> None:
        """Choose for a GPU.

        Args:
            multiprocessors: that it has.
            hopper: the prefill of Hopper, which raises ConfigError for heads that it is not made for; none elsewhere.
        """
        self._multiprocessors, self._hopper = multiprocessors, hopper
        self.few_rows = SkinnyProducts()
        self._inputs: Mapping[str, Tensor] = {}
        self._lengths: dict[str, Tensor] = {}

    def begin(self, inputs: Mapping[str, Tensor]) -> None:
        """State the inputs of the run that follows."""
        self._inputs, self._lengths = inputs, {}

    def __call__(
        self,
        q_BHSD: Tensor,
        k_BGTD: Tensor,
        v_BGTD: Tensor,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """As :func:`models.layers.attend.attend`."""
        found = None if bias is not None else self._reach(k_BGTD, mask)
        if found is not None:
            try:
                return self._attend(q_BHSD, k_BGTD, v_BGTD, found, scale)
            except ConfigError:  # no kernel for such heads
                pass
        return attend_in_groups(q_BHSD, k_BGTD, v_BGTD, mask, bias, scale)

    def append(
        self,
        q_BHSD: Tensor,
        k_BGSD: Tensor,
        v_BGSD: Tensor,
        rotation: Rotation | None,
        caches: tuple[Tensor, Tensor],
        start: Tensor,
        mask: Tensor,
        scale: float | None = None,
    ) -> Tensor | None:
        """As :data:`models.layers.attend.Append`: new positions that see all that is before them."""
        given = self._inputs.get("self_mask")
        if given is None or given.data_ptr() != mask.data_ptr() or given.shape != mask.shape:
            return None
        exact = None if rotation is None else rotation.exact or rotation
        if not lie_together(q_BHSD, k_BGSD, v_BGSD):
            q_BHSD, k_BGSD, v_BGSD = q_BHSD.contiguous(), k_BGSD.contiguous(), v_BGSD.contiguous()
        try:
            if q_BHSD.shape[2] > _FEW:
                q_BHSD = rotate_append(q_BHSD, k_BGSD, v_BGSD, exact, caches, start)
                keys, values = (cache[:, :, : mask.shape[3]] for cache in caches)
                return self(q_BHSD, keys, values, mask, None, scale)
            splits = splits_for(len(k_BGSD) * k_BGSD.shape[1], caches[0].shape[2], self._multiprocessors)
            return decode_append_attention(q_BHSD, k_BGSD, v_BGSD, exact, caches, start, scale, splits)
        except ConfigError:  # no kernel for such heads, or so many rows
            return None

    def in_windows(
        self, q: Tensor, k: Tensor, v: Tensor, table: Tensor, window: int, shift: int, scales: Tensor | None
    ) -> Tensor | None:
        """As :data:`models.layers.window_attention.WindowKernel`."""
        scales = None if scales is None else scales.float()
        try:
            return window_attention(q, k, v, table.contiguous(), window, shift, scales)
        except ConfigError:  # no kernel for such windows or heads
            return None

    def scaled(self, gate: Tensor, scaled: Tensor) -> Tensor | None:
        """As :data:`models.layers.mlp.GatedProduct`."""
        try:
            return gated_product(gate, scaled)
        except ConfigError:  # they are no halves of one product
            return None

    def _attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, reach: tuple[Tensor, bool], scale: float | None
    ) -> Tensor:
        (lengths, causal), heads, count = reach, heads_of(queries, keys, scale), queries.shape[2]
        few = count <= _FEW and heads.heads // heads.kv_heads * count <= most_rows(heads)
        hopper = None if few or keys.shape[2] < _MANY else self._hopper
        if not few and hopper is None and lie_together(queries, keys, values):
            return flash_attention(queries, keys, values, lengths, causal, scale)
        queries, keys, values = queries.contiguous(), _whole(keys), _whole(values)
        if few:
            groups = len(queries) * heads.kv_heads
            splits = splits_for(groups, keys.shape[2], self._multiprocessors)
            return decode_attention(queries, keys, values, lengths, causal, scale, splits)
        if hopper is not None:
            try:
                return hopper(queries, keys, values, lengths, causal, scale)
            except ConfigError:  # not for such heads
                pass
        return flash_attention(queries, keys, values, lengths, causal, scale)

    def _reach(self, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, bool] | None:
        if mask is None:
            name = f"all {keys.shape[2]}"
            if name not in self._lengths:
                self._lengths[name] = torch.full((len(keys),), keys.shape[2], dtype=torch.int32, device=keys.device)
            return self._lengths[name], False
        for name, given in self._inputs.items():
            if given.data_ptr() != mask.data_ptr() or given.dtype != torch.bool:
                continue
            is_padding = given.shape == (mask.shape[0], mask.shape[3]) and (mask.shape[2] == 1 or mask.stride(2) == 0)
            if is_padding or (name == "self_mask" and mask.shape == given.shape):
                return self._length(name), not is_padding
        return None

    def _length(self, name: str) -> Tensor:
        if name not in self._lengths:
            given = self._inputs
            cached = name == "self_mask"
            self._lengths[name] = (
                given["start"] + given["token_ids"].shape[1] if cached else given[name].sum(1, dtype=torch.int32)
            )
        return self._lengths[name]


def _whole(cut: Tensor) -> Tensor:
    # Kernels read a cache as it lies: what was attended to is the beginning of each of its rows.
    batch, groups, _, size = cut.shape
    capacity = cut.stride(1) // size
    if cut.stride() == (groups * capacity * size, capacity * size, size, 1) and capacity >= cut.shape[2]:
        return cut.as_strided((batch, groups, capacity, size), cut.stride())
    return cut.contiguous()


def fused_attention(device: torch.device, gluon: bool = True) -> FusedAttention:
    """For a GPU that torch sees.

    Args:
        device: the GPU.
        gluon: whether a kernel in Gluon may be chosen, where there is one for the GPU.

    Raises:
        UnknownNameError: there are no kernels for its compute capability.
    """
    target = target_of(device)
    hopper = find_hopper_prefill() if gluon and target.name == "sm_90" else None
    return FusedAttention(torch.cuda.get_device_properties(device).multi_processor_count, hopper)


def find_hopper_prefill() -> Prefill | None:
    """The prefill of Hopper; none where Triton has no Gluon, or one with other names."""
    try:
        from models.kernels.hopper_flash_attention import hopper_flash_attention
    except (ImportError, AttributeError):
        return None
    return hopper_flash_attention
