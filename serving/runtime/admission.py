"""Which tensors a graph admits: type, rank, fixed axes, and the bounds of those that vary."""

from __future__ import annotations

from collections.abc import Collection

from attendant.errors import InputError
from attendant.signature import GraphSignature, TensorSpec


class Admission:
    """The inputs of one graph, held to its signature at every call."""

    def __init__(self, signature: GraphSignature) -> None:
        self._signature = signature
        self._admitted: dict[str, tuple[str, tuple[int, ...]]] = {}

    def require_names(self, names: Collection[str]) -> None:
        """Refuse a call that does not feed each input once.

        Raises:
            InputError: an input is missing or unknown.
        """
        wanted = {spec.name for spec in self._signature.inputs}
        if wanted != set(names):
            raise InputError(
                f"the inputs {sorted(wanted)}",
                f"missing {sorted(wanted - set(names))}, unknown {sorted(set(names) - wanted)}",
                "feed each input once",
            )

    def require(self, spec: TensorSpec, dtype: str, shape: tuple[int, ...]) -> None:
        """Refuse a tensor that the graph does not admit.

        Raises:
            InputError: the element type, the rank or a fixed axis differs, or a varying axis is out of bounds.
        """
        # From step to step hardly a shape changes, and a deep decoder has a hundred of them.
        if self._admitted.get(spec.name) != (dtype, shape):
            self._signature.check(spec, dtype, shape)
            self._admitted[spec.name] = dtype, shape


def not_a_buffer(name: str, found: object) -> InputError:
    """The refusal of what is no buffer of a runner for an input that its graph updates in place."""
    return InputError(
        f"a buffer of this runner for {name!r}, which the graph updates in place",
        type(found).__name__,
        f"allocate it once with runner.allocate({name!r}, sizes)",
    )
