"""Manifest → Triton's ``ModelConfig`` message, one rule a task.

Source: the server's ``model_config.proto``. No ``default_queue_policy`` anywhere: with one, the dynamic batcher of
tritonserver 2.51 stalls for 500 ms at a time (triton-inference-server/server #8870).
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from typing import Any

from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ArtefactError, ConfigError
from attendant.manifest import Manifest
from attendant.parameters import DEVICE, GRAPH_MODEL, RUNTIME, THREADS, Device, Runtime
from attendant.sampling_tensors import SPECS
from attendant.signature import GraphSignature, TensorSpec
from attendant.tasks import resolve, task_named
from attendant.tensor_names import (
    ALIGNMENT,
    EXPLAINED,
    HIDDEN,
    IDS_REQUEST,
    LOGITS,
    POOLED,
    SOURCE_TEXTS,
    TEXT_REQUEST,
    TEXT_RESPONSE,
    TOKEN_MASK,
    TOKEN_TEXTS,
)
from serving.engine.output.alignment import aligning_graph
from serving.engine.settings import EngineSettings
from serving.triton.repository.chat_template import CHAT_TEMPLATE, CONTROL_TOKENS

LABELS_NAME = "labels.txt"
_ALIGNED = (
    TensorSpec(name=ALIGNMENT, dtype="float32", axes=("tokens", "source")),
    TensorSpec(name=TOKEN_TEXTS, dtype="string", axes=("tokens",)),
    TensorSpec(name=SOURCE_TEXTS, dtype="string", axes=("source",)),
)
_OURS = (THREADS, RUNTIME, DEVICE, GRAPH_MODEL, CHAT_TEMPLATE, CONTROL_TOKENS)
_TYPES = {
    "bool": pb.TYPE_BOOL,
    "int32": pb.TYPE_INT32,
    "int64": pb.TYPE_INT64,
    "uint8": pb.TYPE_UINT8,
    "uint64": pb.TYPE_UINT64,
    "float16": pb.TYPE_FP16,
    "float32": pb.TYPE_FP32,
    "float64": pb.TYPE_FP64,
    "string": pb.TYPE_STRING,
}


def model_config_from_manifest(
    manifest: Manifest,
    threads: int = 1,
    runtime: Runtime = "auto",
    engine: EngineSettings | None = None,
    device: Device = "auto",
) -> Any:
    """The configuration under which Triton serves an artefact.

    Args:
        manifest: the artefact's.
        threads: that one run of a graph may use; read back by ``serving/triton/backends/triton_api.py``.
        engine: how much at once, of a model that writes; read back there too.
        runtime: that runs its graphs; read back there too. ``auto`` is not written: it is chosen where it is served.
        device: that torch runs them on; the same.

    Raises:
        ArtefactError: nothing serves the artefact's task.
        ConfigError: fewer than one thread, or more slots than the decoder takes rows.
    """
    if threads < 1:
        raise ConfigError("at least one thread", str(threads), "correct --threads")
    config = pb.ModelConfig(name=manifest.name, backend="python")
    config.instance_group.add(count=1, kind=pb.ModelInstanceGroup.KIND_CPU)
    resolve(task_named(manifest.task).config)(config, manifest)
    own = {"task": manifest.task, "example": manifest.example}
    taken = sorted(manifest.details.keys() & {*own, *_OURS, *(one.name for one in fields(EngineSettings))})
    if taken:
        raise ArtefactError(
            f"details of {manifest.name!r} that set no parameter of ours", str(taken), "export it again"
        )
    _add_parameters(config, {**own, **manifest.details})
    config.parameters[THREADS].string_value = str(threads)
    if config.model_transaction_policy.decoupled:
        engine = engine or EngineSettings()
        most = manifest.graph("decoder").axes["batch"].max
        if engine.max_num_seqs > most:
            raise ConfigError(
                f"max_num_seqs of at most {most}, the rows that {manifest.name!r} takes",
                str(engine.max_num_seqs),
                "correct --max-num-seqs",
            )
        _add_parameters(config, asdict(engine))
    for key, value in ((RUNTIME, runtime), (DEVICE, device)):
        if value != "auto":
            config.parameters[key].string_value = value
    return config


def triton_type(dtype: str) -> int:
    """Triton's number for an element type.

    Raises:
        ArtefactError: Triton has none.
    """
    if dtype not in _TYPES:
        raise ArtefactError(f"an element type, one of {sorted(_TYPES)}", repr(dtype), "export in another precision")
    return int(_TYPES[dtype])


def configure_classifier(config: Any, manifest: Manifest) -> None:
    """Pixels → logits, and attention maps where there is a graph of them."""
    configure_predictor(config, manifest)
    explained = [signature for signature in manifest.graphs if signature.name == EXPLAINED]
    maps = [spec for signature in explained for spec in signature.outputs if spec.name != LOGITS]
    _add_outputs(config, [_per_request(spec) for spec in maps])
    if manifest.details.get("labels"):
        config.output[0].label_filename = LABELS_NAME
    for batch in (1, config.max_batch_size):
        warmup = config.model_warmup.add(name=f"batch_{batch}", batch_size=batch)
        for spec in config.input:
            warmup.inputs[spec.name].CopyFrom(
                pb.ModelWarmup.Input(data_type=spec.data_type, dims=spec.dims, zero_data=True)
            )


def configure_predictor(config: Any, manifest: Manifest) -> None:
    """The tensors of the graph ``model``."""
    signature = manifest.graph("model")
    inputs, outputs = ([_per_request(spec) for spec in specs] for specs in (signature.inputs, signature.outputs))
    _batch(config, signature, inputs, outputs)


def configure_embedder(config: Any, manifest: Manifest) -> None:
    """Texts → vectors."""
    signature = manifest.graph("model")
    made = {spec.name: _per_request(spec) for spec in signature.outputs}
    mask = TensorSpec(name=TOKEN_MASK, dtype="bool", axes=("tokens",))
    _batch(config, signature, TEXT_REQUEST, (made[POOLED], made[HIDDEN], mask))


def configure_captioner(config: Any, manifest: Manifest) -> None:
    """Pixels → a stream of text."""
    _generative_model(config)
    _add_inputs(config, [_per_request(spec) for spec in manifest.graph("encoder").inputs])
    _add_alignment(config, manifest)


def configure_text_generator(config: Any, manifest: Manifest) -> None:
    """A text or its tokens → a stream of text."""
    _generative_model(config)
    _add_inputs(config, (*TEXT_REQUEST, *IDS_REQUEST), optional=True)
    _add_alignment(config, manifest)


def _generative_model(config: Any) -> None:
    # Each tensor has a batch of one in front, as TensorRT-LLM's have. The engine batches; Triton hands over one by one.
    config.max_batch_size = 1
    config.model_transaction_policy.decoupled = True
    _add_inputs(config, SPECS.values(), optional=True)
    _add_outputs(config, TEXT_RESPONSE)


def _add_alignment(config: Any, manifest: Manifest) -> None:
    if aligning_graph(manifest) is not None:
        _add_outputs(config, _ALIGNED)


def _batch(config: Any, signature: GraphSignature, inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]) -> None:
    config.max_batch_size = signature.axes["batch"].max
    config.dynamic_batching.SetInParent()  # no delay: a batch is whatever came while the last one ran
    _add_inputs(config, inputs)
    _add_outputs(config, outputs)


def _per_request(spec: TensorSpec) -> TensorSpec:
    return replace(spec, axes=spec.axes[1:])  # Triton adds the batch itself


def _add_inputs(config: Any, specs: Iterable[TensorSpec], optional: bool = False) -> None:
    for spec in specs:
        config.input.add(name=spec.name, data_type=_TYPES[spec.dtype], dims=_dims(spec.axes), optional=optional)


def _add_outputs(config: Any, specs: Iterable[TensorSpec]) -> None:
    for spec in specs:
        config.output.add(name=spec.name, data_type=_TYPES[spec.dtype], dims=_dims(spec.axes))


def _add_parameters(config: Any, values: dict[str, Any]) -> None:
    # What a client needs to know travels in the configuration, so that an address is all it has to be told.
    for key, value in values.items():
        config.parameters[key].string_value = value if isinstance(value, str) else json.dumps(value)


def _dims(axes: tuple[int | str, ...]) -> list[int]:
    return [-1 if isinstance(axis, str) else axis for axis in axes]
