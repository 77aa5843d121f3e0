"""The optimization profiles of a graph, from the sizes that travel in its signature.

``export/graph/axes.py`` says the sizes. A cached decoder has two: ``decode``, one new position, for which TensorRT
takes other kernels (matrix times vector), and ``prefill``, any number of them. They are profiles of one engine, which
share its weights, or of an engine each (:mod:`export.tensorrt.phases`).
"""

from collections.abc import Mapping
from dataclasses import replace

from attendant.engine_manifest import DECODE, EVERY, PREFILL, Profile
from attendant.signature import Axis, GraphSignature

_ONE = Axis(opt=1, max=1)
_PER_STEP = ("steps", "scored")


def profiles_of(signature: GraphSignature) -> tuple[Profile, ...]:
    """The profiles of a graph; none where no axis varies.

    The first that admits a run's shapes is taken, so the narrower one stands first.
    """
    axes = signature.axes
    if not signature.symbols():
        return ()
    if not signature.aliases or _PER_STEP[0] not in axes:
        return (_profile(EVERY, signature, axes),)
    decode = {**axes, **{symbol: _ONE for symbol in _PER_STEP if symbol in axes}}
    # Prompts are usually read one at a time, and half as long as they can be.
    prompt = {"batch": _usually(axes["batch"], 1), "steps": _usually(axes["steps"], -(-axes["steps"].max // 2))}
    return (_profile(DECODE, signature, decode), _profile(PREFILL, signature, {**axes, **prompt}))


def _usually(axis: Axis, size: int) -> Axis:
    return replace(axis, opt=max(axis.min, size))


def _profile(name: str, signature: GraphSignature, axes: Mapping[str, Axis]) -> Profile:
    sizes = [{symbol: getattr(axis, which) for symbol, axis in axes.items()} for which in ("min", "opt", "max")]
    varying = (spec for spec in signature.inputs if any(isinstance(axis, str) for axis in spec.axes))
    shapes = {spec.name: (spec.shape(sizes[0]), spec.shape(sizes[1]), spec.shape(sizes[2])) for spec in varying}
    return Profile(name=name, shapes=shapes)
