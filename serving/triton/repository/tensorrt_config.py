"""Engine manifest → the configuration under which Triton's own TensorRT backend serves a model.

That backend allocates inputs and outputs apart (instance_state.cc), so an engine that updates a cache in place would be
wrong there: such a model keeps its Python body, whose runner owns the buffers.
Source: the server's ``model_config.proto``; tensorrt_backend's README.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tritonclient.grpc import model_config_pb2 as pb

from attendant.engine_manifest import Engine, EngineManifest
from attendant.manifest import Manifest
from attendant.parameters import THREADS
from attendant.signature import Axis, GraphSignature
from attendant.tasks import task_named
from attendant.tensor_names import POOLED

_GRAPH = "model"


@dataclass(frozen=True, slots=True)
class _Size:
    name: str
    sizes: Mapping[str, int]


def triton_engine(manifest: Manifest, engines: EngineManifest | None) -> Engine | None:
    """The engine that Triton serves by itself; none where a body in Python is needed.

    A body is needed where requests are not the graph's tensors (texts), where a cache is updated in place, and where
    weights have to be filled in.
    """
    task = task_named(manifest.task)
    engine = (
        engines.engine(_GRAPH) if engines is not None and (task.reads != "text" and task.answers != "text") else None
    )
    return engine if engine is not None and not engine.aliases and engine.weights != "stripped" else None


def tokens_model(manifest: Manifest) -> str:
    """The name of the model that runs a text encoder's graph on Triton's own backend."""
    return f"{manifest.name}-tokens"


def tokens_engine(manifest: Manifest, engines: EngineManifest | None) -> Engine | None:
    """The engine of a text encoder that Triton serves by itself, asked by a body that tokenizes; none where it cannot.

    It can where the graph itself makes one vector of a text, so that what comes back is small, and where no plugin
    leaks memory at every new length (NVIDIA/TensorRT #4849), which our own runner takes care of.
    """
    pools = manifest.task == "embed" and any(spec.name == POOLED for spec in manifest.graph(_GRAPH).outputs)
    engine = triton_engine(replace(manifest, task="predict"), engines) if pools else None
    return engine if engine is not None and not engine.plugins else None


def serve_with_tensorrt(config: Any, signature: GraphSignature, engine: Engine) -> None:
    """Turn the configuration of a Python body into that of an engine.

    Every size that an engine is fast at is run before the model is ready, and recorded as a CUDA graph. Where only the
    batch varies, smaller batches are padded to the next recorded one.

    Args:
        config: names, types and shapes are those that it states.
        signature: of the graph.
        engine: of it.
    """
    config.backend, config.platform = "tensorrt", "tensorrt_plan"
    config.default_model_filename = engine.file
    del config.parameters[THREADS]
    made = [output for output in config.output if output.name in {spec.name for spec in signature.outputs}]
    del config.output[:]  # maps are of another graph
    config.output.extend(made)
    del config.instance_group[:]
    profiles = [str(number) for number in range(len(engine.profiles))]
    config.instance_group.add(count=1, kind=pb.ModelInstanceGroup.KIND_GPU, profile=profiles)
    del config.model_warmup[:]
    for size in _sizes(signature):
        _add_warmup(config, signature, size)
    cuda = config.optimization.cuda
    cuda.graphs = cuda.output_copy_stream = True
    smaller = 0
    for size in _sizes(signature):
        _add_graph(cuda, signature, size, smaller + 1 if _only_batch_varies(signature) else None)
        smaller = size.sizes["batch"]


def _sizes(signature: GraphSignature) -> Iterator[_Size]:
    axes = signature.axes
    if _only_batch_varies(signature):
        for batch in _batches(axes["batch"]):
            yield _Size(f"batch_{batch}", {"batch": batch})
        return
    for which in ("min", "opt", "max"):
        yield _Size(which, {symbol: getattr(axis, which) for symbol, axis in axes.items()})


def _only_batch_varies(signature: GraphSignature) -> bool:
    return set(signature.symbols()) == {"batch"}


def _batches(axis: Axis) -> list[int]:
    powers = [1 << power for power in range(axis.max.bit_length())]
    return sorted({axis.min, axis.max, *(size for size in powers if axis.min <= size <= axis.max)})


def _add_warmup(config: Any, signature: GraphSignature, size: _Size) -> None:
    warmup = config.model_warmup.add(name=size.name, batch_size=size.sizes["batch"])
    types = {one.name: one.data_type for one in config.input}
    for spec in signature.inputs:
        dims = spec.shape(size.sizes)[1:]
        warmup.inputs[spec.name].CopyFrom(pb.ModelWarmup.Input(data_type=types[spec.name], dims=dims, zero_data=True))


def _add_graph(cuda: Any, signature: GraphSignature, size: _Size, least_batch: int | None) -> None:
    graph = cuda.graph_spec.add(batch_size=size.sizes["batch"])
    for spec in signature.inputs:
        graph.input[spec.name].dim.extend(spec.shape(size.sizes)[1:])
    if least_batch is not None and least_batch < size.sizes["batch"]:
        graph.graph_lower_bound.batch_size = least_batch
        for spec in signature.inputs:
            graph.graph_lower_bound.input[spec.name].dim.extend(spec.shape(size.sizes)[1:])
