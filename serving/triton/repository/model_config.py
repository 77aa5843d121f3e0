"""Manifest → Triton's ``ModelConfig`` message, one rule a task.

Source: the server's ``model_config.proto``. No ``default_queue_policy`` anywhere: with one, the dynamic batcher of
tritonserver 2.51 stalls for 500 ms at a time (triton-inference-server/server #8870).
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from typing import Any

from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ArtefactError, ConfigError, InputError
from attendant.images import require_fitting_size
from attendant.labels import label_fault
from attendant.manifest import ROUNDED, Manifest
from attendant.no_tokenizer import TOKEN_IDS_ONLY
from attendant.parameters import (
    ARTEFACT,
    DEVICE,
    GRAPH_MODEL,
    MOST_THREADS,
    ROUNDING,
    RUNTIME,
    THREADS,
    Device,
    Runtime,
)
from attendant.sampling_tensors import SPECS
from attendant.signature import GraphSignature, TensorSpec
from attendant.tasks import resolve, task_named
from attendant.tensor_names import (
    ALIGNMENT,
    EXPLAINED,
    HIDDEN,
    IDS_REQUEST,
    LOGITS,
    PIXELS,
    POOLED,
    SOURCE_TEXTS,
    TEXT_REQUEST,
    TEXT_RESPONSE,
    TOKEN_IDS,
    TOKEN_MASK,
    TOKEN_TEXTS,
)
from attendant.tokenization import has_tokenizer
from serving.engine.output.alignment import aligning_graph
from serving.engine.settings import EngineSettings
from serving.triton.repository.chat_template import CHAT_TEMPLATE, CONTROL_TOKENS, TOOL_CALLS_ID

LABELS_NAME = "labels.txt"
MOST_WARM_UP_BYTES = 1 << 27
"""Of zeros; tritonserver and its worker each hold them several times over, as long as they load the model."""
_LARGEST = 2**31 - 1
"""Size of an axis, as Triton counts rows."""
_ALIGNED = (
    TensorSpec(name=ALIGNMENT, dtype="float32", axes=("tokens", "source")),
    TensorSpec(name=TOKEN_TEXTS, dtype="string", axes=("tokens",)),
    TensorSpec(name=SOURCE_TEXTS, dtype="string", axes=("source",)),
)
_OURS = (ARTEFACT, THREADS, RUNTIME, DEVICE, GRAPH_MODEL, CHAT_TEMPLATE, CONTROL_TOKENS, TOOL_CALLS_ID, TOKEN_IDS_ONLY)
_TYPES = {
    "bool": pb.TYPE_BOOL,
    "int32": pb.TYPE_INT32,
    "int64": pb.TYPE_INT64,
    "uint8": pb.TYPE_UINT8,
    "uint64": pb.TYPE_UINT64,
    "float16": pb.TYPE_FP16,
    "bfloat16": pb.TYPE_BF16,
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
    instances: int = 1,
) -> Any:
    """The configuration under which Triton serves an artefact.

    Args:
        manifest: the artefact's.
        threads: that one run of a graph may use; read back by ``serving/triton/backends/triton_api.py``.
        engine: how much at once, of a model that writes; read back there too.
        runtime: that runs its graphs; read back there too. ``auto`` is not written: it is chosen where it is served.
        device: that torch runs them on; the same.
        instances: processes that run it, each with an engine of its own.

    Raises:
        ArtefactError: nothing serves the artefact's task.
        ConfigError: fewer than one thread or instance, or more slots than the decoder takes rows.
    """
    if not 1 <= threads <= MOST_THREADS:
        raise ConfigError(f"from 1 to {MOST_THREADS} threads", str(threads), "correct --threads")
    config = pb.ModelConfig(name=manifest.name, backend="python")
    if not 1 <= instances <= MOST_THREADS:
        raise ConfigError(f"from 1 to {MOST_THREADS} instances", str(instances), "correct --instances")
    config.instance_group.add(count=instances, kind=pb.ModelInstanceGroup.KIND_CPU)
    task = task_named(manifest.task)
    resolve(task.config)(config, manifest)
    rounded = {"within": ROUNDED} if runtime in ROUNDING and task.answers == "values" else {}
    own = {"task": manifest.task, "example": rounded | manifest.example if manifest.example else {}}
    taken = sorted(manifest.details.keys() & {*own, *_OURS, *(one.name for one in fields(EngineSettings))})
    if taken:
        raise ArtefactError(
            f"details of {manifest.name!r} that set no parameter of ours", str(taken), "export it again"
        )
    _require_fitting_preprocessing(manifest)
    _add_parameters(config, {**own, **manifest.details})
    config.parameters[THREADS].string_value = str(threads)
    config.parameters[ARTEFACT].string_value = manifest.sha256
    if config.model_transaction_policy.decoupled:
        engine = engine or EngineSettings()
        most = _most_rows(manifest.graph("decoder"))
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


def _require_fitting_preprocessing(manifest: Manifest) -> None:
    preprocessing = manifest.details.get("preprocessing")
    for spec in (spec for graph in manifest.graphs for spec in graph.inputs if spec.name == PIXELS):
        sides = [-1 if isinstance(axis, str) else axis for axis in spec.axes[1:]]
        if preprocessing is None or len(sides) != 3:
            continue
        if not isinstance(preprocessing, dict):
            raise ArtefactError(f"preprocessing of {manifest.name!r}", str(preprocessing)[:300], "export it again")
        try:
            require_fitting_size(preprocessing, sides[:2] if spec.dtype == "uint8" else sides[1:])
        except InputError as error:
            raise ArtefactError(f"{error.expected}, for {manifest.name!r}", error.found, error.remedy) from error


def triton_type(dtype: str) -> int:
    """Triton's number for an element type.

    Raises:
        ArtefactError: Triton has none.
    """
    if dtype not in _TYPES:
        raise ArtefactError(f"an element type, one of {sorted(_TYPES)}", repr(dtype), "export in another precision")
    return int(_TYPES[dtype])


def require_types_of_python(config: Any) -> None:
    """Refuse tensors that Triton hands to no body in Python: it makes no array of them.

    Raises:
        ArtefactError: there is one.
    """
    names = [tensor.name for tensor in (*config.input, *config.output) if tensor.data_type == pb.TYPE_BF16]
    if names:
        raise ArtefactError(
            f"inputs and outputs of {config.name!r} that a body in Python can read",
            f"bfloat16 in {names}",
            "build its engine, which Triton serves by itself: `attendant export tensorrt`; or let the model take and "
            "return float32",
        )


def configure_classifier(config: Any, manifest: Manifest) -> None:
    """Pixels → logits, and attention maps where there is a graph of them."""
    configure_predictor(config, manifest)
    explained = [signature for signature in manifest.graphs if signature.name == EXPLAINED]
    maps = [spec for signature in explained for spec in signature.outputs if spec.name != LOGITS]
    _add_outputs(config, [_per_request(spec) for spec in maps])
    if labels := manifest.details.get("labels"):
        if fault := label_fault(labels):
            raise ArtefactError(f"labels of one line each in the manifest of {manifest.name!r}", fault, "correct them")
        config.output[0].label_filename = LABELS_NAME
    row_bytes = sum(8 * math.prod(spec.dims) for spec in config.input)  # of the largest type
    for batch in (size for size in (1, config.max_batch_size) if size * row_bytes <= MOST_WARM_UP_BYTES):
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
    ids = TensorSpec(name=TOKEN_IDS, dtype="int32", axes=("tokens",))
    _batch(config, signature, TEXT_REQUEST, (made[POOLED], made[HIDDEN], mask, ids))


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
    if not has_tokenizer(manifest.files):
        _add_parameters(config, {TOKEN_IDS_ONLY: True})


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
    config.max_batch_size = _most_rows(signature)
    config.dynamic_batching.SetInParent()  # no delay: a batch is whatever came while the last one ran
    _add_inputs(config, inputs)
    _add_outputs(config, outputs)


def _most_rows(signature: GraphSignature) -> int:
    axis = signature.axes.get("batch")
    if axis is None or axis.max > _LARGEST:
        expected = f"an axis 'batch' of at most {_LARGEST} rows in graph {signature.name!r}"
        raise ArtefactError(expected, "none" if axis is None else str(axis.max), "export the model again")
    return axis.max


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
    for axis in axes:
        if not isinstance(axis, str) and not 0 <= axis <= _LARGEST:
            raise ArtefactError(f"sizes of axes from 0 to {_LARGEST}", str(axis), "export the model again")
    return [-1 if isinstance(axis, str) else axis for axis in axes]
