"""A decoder graph as a model whose states Triton keeps: the second choice, after the generation server.

Every graph becomes a model of its own, ``<name>-<graph>``. What a graph aliases is a state; all its other inputs a
client sends at every step. A step gathers sequences, each at a position of its own, because the mask always spans the
whole capacity.

Source: the server's ``docs/user_guide/implicit_state_management.md``; facts and limits are in
``docs/guides/implicit-state.md``. Not run: the wheel's tritonserver has the Python backend alone.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from tritonclient.grpc import model_config_pb2 as pb

from models.errors import ArtefactError
from models.manifest import Manifest
from models.signature import GraphSignature, TensorSpec
from serving.lint.states import mispaired_states
from serving.repository.model_config import triton_type

StateBackend = Literal["onnxruntime", "tensorrt"]
DECODER = "decoder"
IDLE_US = 300_000_000  # five minutes; Triton's own default of one second takes the state of any slow client
_PLATFORMS = {"tensorrt": "tensorrt_plan"}
_KINDS = {"onnxruntime": pb.ModelInstanceGroup.KIND_CPU, "tensorrt": pb.ModelInstanceGroup.KIND_GPU}
_WIDTHS = {
    pb.TYPE_BOOL: 1,
    pb.TYPE_UINT8: 1,
    pb.TYPE_INT32: 4,
    pb.TYPE_INT64: 8,
    pb.TYPE_UINT64: 8,
    pb.TYPE_FP16: 2,
    pb.TYPE_FP32: 4,
    pb.TYPE_FP64: 8,
}
_BATCH, _ATTENDED = "batch", "attended"
_REMEDY = "serve it by the generation server: `python -m serving repository` without --implicit-state"


def implicit_state_configs(manifest: Manifest, backend: StateBackend) -> dict[str, Any]:
    """Graph → the configuration under which Triton serves it: the decoder with states, and the encoder without.

    Args:
        manifest: the artefact's.
        backend: that runs the graphs.

    Raises:
        ArtefactError: the artefact has no decoder, or one whose states Triton cannot keep.
    """
    decoder = manifest.graph(DECODER)
    _require_keepable(manifest, decoder)
    made = {signature.name: _stateless(manifest, signature, backend) for signature in _encoders(manifest)}
    return {**made, DECODER: _stateful(manifest, decoder, backend)}


def state_bytes(config: Any) -> int:
    """The memory of the states of all sequences that may be open at once."""
    batcher = config.sequence_batching
    one: int = sum(_WIDTHS[state.data_type] * prod(state.dims) for state in batcher.state)
    return one * int(batcher.oldest.max_candidate_sequences)


def _encoders(manifest: Manifest) -> list[GraphSignature]:
    wanted = {spec.name for spec in manifest.graph(DECODER).inputs}
    return [
        signature
        for signature in manifest.graphs
        if not signature.aliases and any(spec.name in wanted for spec in signature.outputs)
    ]


def _require_keepable(manifest: Manifest, decoder: GraphSignature) -> None:
    expected = f"states of {manifest.name!r} that Triton can keep"
    if not decoder.aliases:
        raise ArtefactError(expected, "a decoder without states", _REMEDY)
    computed = {spec.name for graph in manifest.graphs for spec in graph.outputs}
    for name in decoder.aliases.values():
        if name.removesuffix("_in") in computed:
            found = f"{name!r}, whose first content an encoder computes, while Triton's begins with zeros or a file"
            raise ArtefactError(expected, found, _REMEDY)
        spec = decoder.input(name)
        if any(isinstance(axis, str) for axis in spec.axes[1:]):
            raise ArtefactError(expected, f"{name!r} of the varying shape {spec.describe_axes()}", _REMEDY)


def _model(manifest: Manifest, signature: GraphSignature, backend: StateBackend) -> Any:
    config = pb.ModelConfig(name=f"{manifest.name}-{signature.name}", backend=backend)
    config.platform = _PLATFORMS.get(backend, "")
    config.max_batch_size = signature.axes[_BATCH].largest
    config.instance_group.add(count=1, kind=_KINDS[backend])
    return config


def _stateful(manifest: Manifest, signature: GraphSignature, backend: StateBackend) -> Any:
    config = _model(manifest, signature, backend)
    kept = set(signature.aliases.values())
    for spec in signature.inputs:
        if spec.name not in kept:
            _add_input(config, signature, spec)
    for spec in signature.outputs:
        if spec.name not in signature.aliases:
            config.output.add(name=spec.name, data_type=triton_type(spec.dtype), dims=_open_dims(spec))
    config.sequence_batching.max_sequence_idle_microseconds = IDLE_US
    # As many as a step takes: more would keep their memory and wait.
    config.sequence_batching.oldest.max_candidate_sequences = config.max_batch_size
    for output, name in signature.aliases.items():
        _add_state(config, signature.input(name), output)
    _require_order(config)
    return config


def _add_input(config: Any, signature: GraphSignature, spec: TensorSpec) -> None:
    data_type = triton_type(spec.dtype)
    if len(spec.axes) == 1:  # one number a row: Triton knows no tensor without axes beside the batch's
        config.input.add(name=spec.name, data_type=data_type, dims=[1]).reshape.SetInParent()
        return
    # Of one size at every step, or sequences at different positions would never share a batch.
    fixed = {_ATTENDED: signature.axes[_ATTENDED].largest} if _ATTENDED in signature.axes else {}
    dims = [fixed.get(axis, -1) if isinstance(axis, str) else axis for axis in spec.axes[1:]]
    config.input.add(name=spec.name, data_type=data_type, dims=dims)


def _add_state(config: Any, spec: TensorSpec, output: str) -> None:
    data_type, dims = triton_type(spec.dtype), list(spec.axes[1:])
    state = config.sequence_batching.state.add(
        input_name=spec.name,
        output_name=output,
        data_type=data_type,
        dims=dims,
        use_same_buffer_for_input_output=True,  # the backends copy a state out after they have run the graph
    )
    state.initial_state.add(name="zero", data_type=data_type, dims=dims, zero_data=True)


def _require_order(config: Any) -> None:
    wrong = mispaired_states(config)
    if wrong:
        raise ArtefactError(
            f"states of {config.name!r} whose inputs and outputs sort alike",
            f"{wrong}, which Triton would mix up (triton-inference-server/server #8586)",
            "name them alike in models/tasks/, with _in and _out at the very end",
        )


def _stateless(manifest: Manifest, signature: GraphSignature, backend: StateBackend) -> Any:
    config = _model(manifest, signature, backend)
    config.dynamic_batching.SetInParent()
    for spec in signature.inputs:
        config.input.add(name=spec.name, data_type=triton_type(spec.dtype), dims=_open_dims(spec))
    for spec in signature.outputs:
        config.output.add(name=spec.name, data_type=triton_type(spec.dtype), dims=_open_dims(spec))
    sizes = {symbol: axis.usual for symbol, axis in signature.axes.items()}
    for batch in (1, config.max_batch_size):
        warmup = config.model_warmup.add(name=f"batch_{batch}", batch_size=batch)
        for spec in signature.inputs:
            sample = warmup.inputs[spec.name]
            sample.data_type, sample.zero_data = triton_type(spec.dtype), True
            sample.dims.extend(spec.shape(sizes)[1:])
    return config


def _open_dims(spec: TensorSpec) -> list[int]:
    return [-1 if isinstance(axis, str) else axis for axis in spec.axes[1:]]
