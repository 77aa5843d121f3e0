"""What goes into a graph and what comes out: names, element types and axes, stated once.

ONNX input names, TensorRT profiles, ``config.pbtxt``, client tensors and test cases are derived from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attendant.errors import ArtefactError, ConfigError, InputError

DType = Literal[
    "bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "bfloat16", "float32", "float64", "string"
]
_OUT_OF_BOUNDS = "the graph was made and proved for these sizes: split the request, or export a model of others"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The sizes that a varying axis can take.

    Attributes:
        min: usually 1.
        opt: the size to be fastest at.
        max: what was exported, tested and planned for.

    Raises:
        ConfigError: not 1 ≤ min ≤ opt ≤ max.
    """

    min: int = 1
    opt: int
    max: int

    def __post_init__(self) -> None:
        if not 1 <= self.min <= self.opt <= self.max:
            raise ConfigError("1 ≤ min ≤ opt ≤ max", repr(self), "correct export/graph/axes.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One tensor of a graph.

    Attributes:
        name: its name in every runtime.
        dtype: element type, in NumPy's words.
        axes: a number for a fixed axis, a symbol (``batch``) for one that varies from call to call.
    """

    name: str
    dtype: DType
    axes: tuple[int | str, ...]

    def check(self, dtype: str, shape: tuple[int, ...]) -> None:
        """Refuse a tensor that this specification does not admit.

        Raises:
            InputError: the element type, the rank or a fixed axis differs.
        """
        if dtype != self.dtype or len(shape) != len(self.axes):
            raise self._refusal(dtype, shape)
        for axis, size in zip(self.axes, shape, strict=True):
            if axis.__class__ is int and axis != size:
                raise self._refusal(dtype, shape)

    def _refusal(self, dtype: str, shape: tuple[int, ...]) -> InputError:
        return InputError(
            f"tensor {self.name!r} of type {self.dtype} and shape {self.describe_axes()}",
            f"{dtype} {list(shape)}",
            "convert or reshape the tensor before the call",
        )

    def describe_axes(self) -> str:
        """The axes as people write them, for instance ``[batch, 1, 8, 8]``."""
        return "[" + ", ".join(str(axis) for axis in self.axes) + "]"

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The concrete shape for given sizes of the varying axes."""
        return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in self.axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSignature:
    """One graph of a model.

    Attributes:
        name: the graph's name inside its model (``encoder``); also the stem of its file.
        inputs: in call order.
        outputs: in result order.
        aliases: output name → input name, where both are one buffer that the graph updates in place.
        axes: varying axis → its sizes; an axis without them takes any.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    aliases: dict[str, str] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_input = {spec.name: spec for spec in self.inputs}
        by_output = {spec.name: spec for spec in self.outputs}
        for output, source in self.aliases.items():
            pair = by_output.get(output), by_input.get(source)
            if None in pair or pair[0].axes != pair[1].axes or pair[0].dtype != pair[1].dtype:  # type: ignore[union-attr]
                raise ArtefactError(
                    f"graph {self.name!r} to alias an output with an input of the same type and axes",
                    f"{output!r} → {source!r} as {pair}",
                    "correct the signature in models/tasks/",
                )

    def input(self, name: str) -> TensorSpec:
        """The input of that name.

        Raises:
            InputError: there is none.
        """
        for spec in self.inputs:
            if spec.name == name:
                return spec
        raise InputError(f"one of {[spec.name for spec in self.inputs]}", repr(name), "use the graph's input names")

    def check(self, spec: TensorSpec, dtype: str, shape: tuple[int, ...]) -> None:
        """Refuse an input that its specification does not admit, or an axis that is too short or too long.

        Args:
            spec: of an input.
            dtype: the element type that was given.
            shape: the shape that was given.

        Raises:
            InputError: the element type, the rank or a fixed axis differs, or a varying axis is out of bounds.
        """
        spec.check(dtype, shape)
        for symbol, size in zip(spec.axes, shape, strict=True):
            axis = self.axes.get(symbol)  # type: ignore[arg-type]  # a number, of a fixed axis, is no key
            if axis is not None and not axis.min <= size <= axis.max:
                bound = f"at most {axis.max}" if size > axis.max else f"at least {axis.min}"
                raise InputError(f"{bound} along axis {symbol!r} of {spec.name!r}", str(size), _OUT_OF_BOUNDS)

    def symbols(self) -> tuple[str, ...]:
        """The varying axes of the inputs, each once, in order of appearance."""
        return tuple(dict.fromkeys(axis for spec in self.inputs for axis in spec.axes if isinstance(axis, str)))
