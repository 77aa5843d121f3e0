"""How exported graphs cut maps into windows and join them again, and what biases of windows say.

    cut     Reshape [B, a, W, b, W, C] → Transpose [B, a, b, W, W, C] → Reshape [B, N, P, C]
    joined  the same backwards
    rolled  Concat(x[s:], x[:s]) along the rows, then along the columns

Legend: B batch, N = a b windows, W side of a window, P = W² places, C channels, H heads, O = (2W − 1)² offsets.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from export.passes.match.attention_reach import RefusalError
from export.passes.match.head_layout import producer

Floats = NDArray[Any]
_SIDE_BY_SIDE = [0, 1, 3, 2, 4, 5]
_SEEN = -1e4
"""What a bias is above: models mask with the least number of the type, at most −65504."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A map and how it was cut.

    Attributes:
        map: ``[B, h, w, C]``, before it was rolled.
        height: h.
        width: w.
        window: W.
        shift: by how much it was rolled up and left.
    """

    map: ir.Value
    height: int
    width: int
    window: int
    shift: int

    @property
    def places(self) -> int:
        """P."""
        return self.window**2

    @property
    def windows(self) -> int:
        """N."""
        return self.height * self.width // self.places


def cut_of(windows: ir.Value) -> Cut:
    """The map that windows ``[B, N, P, C]`` were cut from.

    Raises:
        RefusalError: they were made in another way.
    """
    six, whole = _before_exchange(windows)
    _, down, window, across, other, _ = six
    if window != other:
        raise RefusalError(f"windows of {window} × {other}")
    source, right = _find_roll(whole, axis=2)
    source, shift = _find_roll(source, axis=1)
    if right != shift:
        raise RefusalError(f"rolled by {shift} and {right}")
    cut = Cut(map=source, height=down * window, width=across * window, window=window, shift=shift)
    require_sizes(windows, cut.windows, cut.places)
    require_sizes(source, cut.height, cut.width)
    return cut


def joined_after(windows: ir.Value, cut: Cut) -> ir.Value:
    """The map that windows ``[B, N, P, C]`` are joined to, rolled back.

    Raises:
        RefusalError: they are used in another way.
    """
    apart = only_user(windows, "Reshape")
    exchanged = only_user(apart.outputs[0], "Transpose")
    if list(exchanged.attributes.get_ints("perm", ())) != _SIDE_BY_SIDE:
        raise RefusalError("windows are joined in another order")
    whole = only_user(exchanged.outputs[0], "Reshape").outputs[0]
    require_sizes(apart.outputs[0], cut.height // cut.window, cut.width // cut.window, cut.window, cut.window)
    require_sizes(whole, cut.height, cut.width)
    for size, axis in ((cut.height, 1), (cut.width, 2)):
        whole = _rolled_on(whole, axis, size - cut.shift) if cut.shift else whole
    return whole


def table_of(bias: Floats, heads: int, cut: Cut) -> Floats:
    """The table ``[H, O]`` that the biases ``[N H, P, P]`` of a map's windows were read from.

    Raises:
        RefusalError: they are more than such a table, and the mask of a shifted map.
    """
    if bias.shape[-3:] != (cut.windows * heads, cut.places, cut.places) or bias.size != math.prod(bias.shape[-3:]):
        raise RefusalError(f"its bias {list(bias.shape)} is not one of each head of each window")
    bias_NHPP = bias.reshape(-1, heads, cut.places, cut.places)
    seen_NHPP = bias_NHPP > _SEEN
    region_NP = _regions(cut)
    if not np.array_equal(seen_NHPP, np.broadcast_to(_same(region_NP)[:, None], seen_NHPP.shape)):
        raise RefusalError("its mask is not that of a shifted map")
    offset_PP = _offsets(cut.window)
    table_HO = np.zeros((heads, (2 * cut.window - 1) ** 2), bias.dtype)
    for bias_HPP, seen_HPP in zip(bias_NHPP, seen_NHPP, strict=True):
        for table_O, bias_PP, seen_PP in zip(table_HO, bias_HPP, seen_HPP, strict=True):
            table_O[offset_PP[seen_PP]] = bias_PP[seen_PP]
    if not np.array_equal(np.broadcast_to(table_HO[:, offset_PP], bias_NHPP.shape)[seen_NHPP], bias_NHPP[seen_NHPP]):
        raise RefusalError("its bias differs between pairs of places of one offset")
    return table_HO


def require_sizes(value: ir.Value, *sizes: int) -> None:
    """Hold a value to the sizes between its first axis, B, and its last.

    Raises:
        RefusalError: others are known, or none.
    """
    found = () if value.shape is None else value.shape[1:-1]
    if found != sizes:
        raise RefusalError(f"{value.name} is {list(found)} between its first axis and its last, not {list(sizes)}")


def only_user(value: ir.Value, operator: str) -> ir.Node:
    """The one node that reads a value.

    Raises:
        RefusalError: there are others, or it is another operator.
    """
    users = list(value.consumers())
    readers = [user.op_type for user in users] + ["an output"] * value.is_graph_output()
    if readers != [operator]:
        raise RefusalError(f"{value.name} goes to {readers}, not to one {operator}")
    return users[0]


def _before_exchange(windows: ir.Value) -> tuple[list[int], ir.Value]:
    flat = producer(windows, "Reshape")
    exchanged = producer(None if flat is None else flat.inputs[0], "Transpose")
    apart = producer(None if exchanged is None else exchanged.inputs[0], "Reshape")
    if apart is None or exchanged is None or list(exchanged.attributes.get_ints("perm", ())) != _SIDE_BY_SIDE:
        raise RefusalError("its windows are not cut from a map")
    shape, whole = apart.outputs[0].shape, apart.inputs[0]
    assert shape is not None and whole is not None
    return [size if isinstance(size, int) else -1 for size in shape], whole


def _find_roll(value: ir.Value, axis: int) -> tuple[ir.Value, int]:
    joined = producer(value, "Concat")
    if joined is None or joined.attributes.get_int("axis", 0) != axis or len(joined.inputs) != 2:
        return value, 0
    slices = [producer(part, "Slice") for part in joined.inputs]
    if slices[0] is None or slices[1] is None or slices[0].inputs[0] is not slices[1].inputs[0]:
        return value, 0
    source = slices[0].inputs[0]
    assert source is not None
    return source, _number(slices[0].inputs[1])


def _rolled_on(value: ir.Value, axis: int, first: int) -> ir.Value:
    joined = {join for part in value.consumers() for join in part.outputs[0].consumers() if join.op_type == "Concat"}
    if len(joined) != 1 or _find_roll(next(iter(joined)).outputs[0], axis) != (value, first):
        raise RefusalError("the map is not rolled back")
    return next(iter(joined)).outputs[0]


def _number(value: ir.Value | None) -> int:
    if value is None or value.const_value is None:
        raise RefusalError("rolled by a number that the graph computes")
    return int(value.const_value.numpy().reshape(-1)[0])


def _regions(cut: Cut) -> NDArray[np.int64]:
    over = [np.arange(size) >= size - cut.shift for size in (cut.height, cut.width)]
    region = 2 * over[0][:, None].astype(np.int64) + over[1]
    w = cut.window
    apart = region.reshape(cut.height // w, w, cut.width // w, w).transpose(0, 2, 1, 3)
    return apart.reshape(-1, w * w)


def _same(region_NP: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray(region_NP[:, :, None] == region_NP[:, None, :])


def _offsets(window: int) -> NDArray[np.int64]:
    row, column = np.divmod(np.arange(window**2), window)
    down, right = (x[:, None] - x[None, :] + window - 1 for x in (row, column))
    return np.asarray((2 * window - 1) * down + right)
