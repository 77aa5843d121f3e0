"""Whether an engine has the tensors that its graph's signature promises."""

from __future__ import annotations

from collections.abc import Iterator

from attendant.engine_manifest import Engine
from attendant.errors import ArtefactError
from attendant.signature import GraphSignature, TensorSpec
from serving.runtime.tensorrt.api import CudaEngine

_WORDS = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
    "UINT8": "uint8",
}


def require_signature(engine: CudaEngine, described: Engine, signature: GraphSignature) -> dict[str, str]:
    """Hold an engine to its graph's signature.

    Returns:
        Output → input, where the engine wants both at one address.

    Raises:
        ArtefactError: a tensor is missing, unknown, of another type or shape, or on the host; or the engine updates in
            place what the signature does not.
    """
    aliases = aliases_of(engine)
    wrong = list(_wrong(engine, signature))
    if wrong:
        raise ArtefactError(f"the tensors of graph {signature.name!r} in {described.file}", wrong[0], "build it again")
    # Of what its plugins write in place an engine need not tell; its manifest does.
    known = aliases if not described.plugins else {**described.aliases, **aliases}
    if known != described.aliases or not known.items() <= signature.aliases.items():
        expected = f"{described.file} to update in place {described.aliases}, a part of {signature.aliases}"
        raise ArtefactError(expected, str(aliases), "build it again")
    return known


def aliases_of(engine: CudaEngine) -> dict[str, str]:
    """Output → input, where an engine wants both at one address."""
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    outputs = [name for name in names if engine.get_tensor_mode(name).name == "OUTPUT"]
    pairs = ((name, engine.get_aliased_input_tensor(name)) for name in outputs)
    return {output: source for output, source in pairs if source}


def _wrong(engine: CudaEngine, signature: GraphSignature) -> Iterator[str]:
    found = {engine.get_tensor_name(index) for index in range(engine.num_io_tensors)}
    specs = {spec.name: (spec, "INPUT") for spec in signature.inputs}
    specs |= {spec.name: (spec, "OUTPUT") for spec in signature.outputs}
    if found != specs.keys():
        yield f"missing {sorted(specs.keys() - found)}, unknown {sorted(found - specs.keys())}"
        return
    for spec, mode in specs.values():
        if engine.get_tensor_mode(spec.name).name != mode or not _agrees(engine, spec):
            yield f"{spec.name!r} {engine.get_tensor_dtype(spec.name).name} {list(engine.get_tensor_shape(spec.name))}"
        if engine.get_tensor_location(spec.name).name != "DEVICE":
            yield f"{spec.name!r}, which the engine reads on the host"


def _agrees(engine: CudaEngine, spec: TensorSpec) -> bool:
    shape = tuple(engine.get_tensor_shape(spec.name))
    return (
        _WORDS.get(engine.get_tensor_dtype(spec.name).name) == spec.dtype
        and len(shape) == len(spec.axes)
        and all(isinstance(axis, str) or size == axis for axis, size in zip(spec.axes, shape, strict=True))
    )
