"""What an Attention node sees, in a plugin's words: how many of a row's keys, and whether none behind its own position.

Three forms are known. Keys out of a TensorScatter under the graph's ``self_mask``: a row's queries are the last of what
it has, and see what stands before them. A mask of keys that is a graph input ``[B, T]``: padding, where whoever makes
it promises that it stands behind a row's tokens; of a client's own mask nothing says so. No mask: all keys. Anything
else, a bias or a window, has no plugin.

Legend: B batch, S queries, T keys, M capacity, H query heads, G key and value heads, D head size.
"""

import math
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.tape import Tape

from attendant.errors import ConfigError
from export.passes.match.head_layout import producer
from models.kernel_configs.heads import HeadsConfig

_TYPES = {ir.DataType.FLOAT: "float32", ir.DataType.FLOAT16: "float16", ir.DataType.BFLOAT16: "bfloat16"}


class RefusalError(Exception):
    """Why a place keeps its own operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The tensors of one attention.

    Attributes:
        queries: ``[B, H, S, D]``.
        keys: ``[B, G, M, D]``.
        values: likewise.
        lengths: int32 ``[B]``: how many keys of a row there are.
        causal: whether its queries are the last of them, and see none behind their own.
        heads: their kind.
        element_type: theirs.
    """

    queries: ir.Value
    keys: ir.Value
    values: ir.Value
    lengths: ir.Value
    causal: bool
    heads: HeadsConfig
    element_type: ir.DataType

    @property
    def capacity(self) -> int | None:
        """M, where it is fixed."""
        assert self.keys.shape is not None
        size = self.keys.shape[2]
        return size if isinstance(size, int) else None


class Reaches:
    """Of the attentions of one graph; the lengths are computed once."""

    def __init__(self, tape: Tape, graph: ir.Graph, padded_behind: bool) -> None:
        """Nothing is added to the graph until a node is asked for.

        Args:
            tape: of the graph.
            graph: to be asked about.
            padded_behind: whether padding is known to stand behind a row's tokens.
        """
        self._tape, self._inputs = tape, {value.name: value for value in graph.inputs}
        self._padded_behind = padded_behind
        self._lengths: dict[tuple[str, ...], ir.Value] = {}

    def of(self, node: ir.Node) -> Reach:
        """What one node sees.

        Raises:
            RefusalError: there is no plugin for it.
        """
        queries, keys, values = (_present(value) for value in node.inputs[:3])
        mask = node.inputs[3] if len(node.inputs) > 3 else None
        if len([value for value in node.inputs if value is not None]) > 4 or len(node.outputs) > 1:
            raise RefusalError("it has a past, lengths or further outputs")
        if node.attributes.get_float("softcap", 0.0) != 0.0 or node.attributes.get_int("is_causal", 0) != 0:
            raise RefusalError("it has a softcap, or is causal by an attribute")
        if any(len(_sizes(value)) != 4 for value in node.inputs[:3]):
            raise RefusalError("its heads lie side by side")
        cached = mask is not None and mask is self._inputs.get("self_mask")
        if cached:
            keys, values = _cache(keys), _cache(values)
        lengths = self._cached() if cached else self._padded(mask, keys) if mask is not None else self._whole(keys)
        return Reach(
            queries=queries,
            keys=keys,
            values=values,
            lengths=lengths,
            causal=cached,
            heads=_heads(node, queries, keys, values),
            element_type=_type(queries),
        )

    def _cached(self) -> ir.Value:
        if ("start",) not in self._lengths:
            tape, ids = self._tape, self._inputs["token_ids"]
            steps = tape.op("Shape", [ids], {"start": 1, "end": 2})
            self._lengths["start",] = _as_int32(tape, tape.op("Add", [self._inputs["start"], steps]))
        return self._lengths["start",]

    def _padded(self, mask: ir.Value, keys: ir.Value) -> ir.Value:
        source = _mask_of_keys(mask, keys)
        if source is None:
            raise RefusalError("its mask is no padding: a bias, or a window, or not of its keys")
        if not self._padded_behind:
            raise RefusalError("its mask is a client's own: nothing says that padding stands behind a row's tokens")
        key = ("padding", str(source.name))
        if key not in self._lengths:
            axis = self._tape.op("Constant", [], {"value_ints": [1]})
            self._lengths[key] = self._tape.op("ReduceSum", [_as_int32(self._tape, source), axis], {"keepdims": 0})
        return self._lengths[key]

    def _whole(self, keys: ir.Value) -> ir.Value:
        key = ("whole", str(keys.name))
        if key not in self._lengths:
            tape = self._tape
            count = _as_int32(tape, tape.op("Shape", [keys], {"start": 2, "end": 3}))
            self._lengths[key] = tape.op("Expand", [count, tape.op("Shape", [keys], {"start": 0, "end": 1})])
        return self._lengths[key]


def _mask_of_keys(mask: ir.Value, keys: ir.Value) -> ir.Value | None:
    # An input [B, T] → [B, 1, 1, T], which may be repeated for queries and heads; by shapes alone, none has moved.
    repeated = producer(mask, "Expand")
    row = mask if repeated is None else repeated.inputs[0]
    node = None if row is None else row.producer()
    source = None if node is None or node.op_type not in ("Unsqueeze", "Reshape") else node.inputs[0]
    if row is None or source is None or not source.is_graph_input() or source.dtype != ir.DataType.BOOL:
        return None
    if keys.shape is None or source.shape != (keys.shape[0], keys.shape[2]):
        return None
    return source if row.shape == (keys.shape[0], 1, 1, keys.shape[2]) else None


def _cache(value: ir.Value) -> ir.Value:
    sliced = producer(value, "Slice")
    whole = value if sliced is None else _present(sliced.inputs[0])
    if producer(whole, "TensorScatter") is None:
        raise RefusalError("its keys or values come out of no TensorScatter")
    return whole


def _heads(node: ir.Node, queries: ir.Value, keys: ir.Value, values: ir.Value) -> HeadsConfig:
    heads, groups, size = _sizes(queries)[1], _sizes(keys)[1], _sizes(queries)[3]
    for others in (keys, values):
        if (found := (_sizes(others)[1], _sizes(others)[3])) != (groups, size):
            raise RefusalError(f"{found[0]} heads of {found[1]} beside {groups} of {size}: plugins take one number")
    scale = node.attributes.get_float("scale", None)
    if scale is not None and not math.isclose(scale, size**-0.5, rel_tol=1e-6):
        raise RefusalError(f"its scale is {scale:g}, not 1/√{size}: plugins are handed no such numbers")
    if len({_type(value) for value in node.inputs[:3] if value is not None}) > 1:
        raise RefusalError("its queries, keys and values are of different types")
    try:
        dtype = _TYPES[_type(queries)]
        return HeadsConfig(heads=heads, kv_heads=groups, head_size=size, dtype=dtype, scale=size**-0.5)
    except (ConfigError, KeyError) as error:
        raise RefusalError(f"there is no kernel for its heads: {error}") from error


def _type(value: ir.Value) -> ir.DataType:
    return value.dtype or ir.DataType.UNDEFINED


def _as_int32(tape: Tape, value: ir.Value) -> ir.Value:
    return tape.op("Cast", [value], {"to": ir.DataType.INT32.value})


def _sizes(value: ir.Value | None) -> tuple[int, ...]:
    shape = _present(value).shape
    return () if shape is None else tuple(size if isinstance(size, int) else -1 for size in shape)


def _present(value: ir.Value | None) -> ir.Value:
    assert value is not None
    return value
