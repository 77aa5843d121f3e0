"""The runtimes that a graph is made for, one record each: what they execute, and what they cannot read.

Data, and no branches: a new runtime is a new record. Each says what its claims rest on. TensorRT's are read from its
documentation and the sources of its parser; no graph of ours was built or run on TensorRT.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from attendant.errors import unknown_name

STANDARD_DOMAINS = frozenset({"", "ai.onnx"})
_FLOATS = frozenset({"float32", "float16", "bfloat16"})
_INTEGERS = frozenset({"int32", "int64"})
_TABLE = Path(__file__).parent / "constraints" / "tensorrt.toml"

# ONNX Runtime's CPU kernels of type bfloat16 that are missing among the operators that we write, tried one by one.
_NO_BFLOAT16_ON_CPU = frozenset(
    {
        "Add",
        "Attention",
        "Conv",
        "Cos",
        "Expand",
        "GRU",
        "Gelu",
        "Gemm",
        "LSTM",
        "MatMul",
        "Mul",
        "Pad",
        "RMSNormalization",
        "RNN",
        "ReduceMax",
        "ReduceMean",
        "Relu",
        "Sigmoid",
        "Sin",
        "Softmax",
        "Sub",
        "Tanh",
        "Where",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeTarget:
    """What one runtime can do.

    Attributes:
        name: how command lines call it.
        runtime: the program and the version that the record is about.
        evidence: what the record rests on.
        form: of a graph that it is given: the target of a lowering, or empty for the standard's graph.
        opsets: the oldest and the newest version of the standard's operators that it reads.
        newest_ir_version: of the file format; none where no limit is known.
        domains: the operator domains that it knows.
        dtypes: element types that it computes with.
        quantized: element types that weights or activations have between QuantizeLinear and DequantizeLinear.
        updates_cache_in_place: whether TensorScatter writes into the buffer that it was given.
        cache_dtypes: element types of a cache.
        operators: operator → element types; empty where no table is published.
        missing_operators: operators that it cannot read.
        missing_types: element type → operators that it has not for it, where others it has.
        constraints: names of what else a graph is held to (:mod:`export.targets.constraints.registry`).
    """

    name: str
    runtime: str
    evidence: str
    form: str = ""
    opsets: tuple[int, int]
    newest_ir_version: int | None = None
    domains: frozenset[str] = STANDARD_DOMAINS
    dtypes: frozenset[str]
    quantized: frozenset[str]
    updates_cache_in_place: bool
    cache_dtypes: frozenset[str]
    operators: Mapping[str, frozenset[str]] = field(default_factory=dict)
    missing_operators: frozenset[str] = frozenset()
    missing_types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    constraints: tuple[str, ...]


def target_named(name: str) -> RuntimeTarget:
    """The record of a runtime.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in TARGETS:
        raise unknown_name("target", name, TARGETS, f"name one of {', '.join(TARGETS)} with --target")
    return TARGETS[name]


def _table(path: Path) -> dict[str, frozenset[str]]:
    groups = tomllib.loads(path.read_text(encoding="utf-8"))["operators"]
    return {name: frozenset(group["types"]) for group in groups for name in group["names"]}


_WHOLE_GRAPH = ("opset", "domain", "operator", "element-type")

_ORT_CPU = RuntimeTarget(
    name="ort-cpu",
    runtime="ONNX Runtime 1.31.1, CPU provider",
    evidence="measured: every graph is loaded by the runtime itself",
    opsets=(7, 26),
    newest_ir_version=13,
    domains=STANDARD_DOMAINS | {"com.microsoft"},
    dtypes=frozenset({"float32", "float16", "float64", "uint8", "bool"}) | _INTEGERS,
    quantized=frozenset({"int8", "uint8", "int4", "uint4", "float8e4m3fn"}),
    updates_cache_in_place=True,
    cache_dtypes=_FLOATS,
    missing_types={"bfloat16": _NO_BFLOAT16_ON_CPU, "float64": frozenset({"Conv", "RNN"})},
    constraints=(*_WHOLE_GRAPH, "ir-version", "attention-mask-query-axis", "session"),
)

_ATTENDANT_CPU = replace(
    _ORT_CPU,
    name="attendant-cpu",
    runtime="ONNX Runtime 1.31.1, CPU provider, with Attendant's kernels",
    evidence="measured: such graphs are run and compared in tests, where the processor has AVX-512 with VNNI",
    form="attendant-cpu",
    domains=_ORT_CPU.domains | {"attendant"},
    constraints=(*_WHOLE_GRAPH, "ir-version", "attention-mask-query-axis"),
)

_ORT_CUDA = RuntimeTarget(
    name="ort-cuda",
    runtime="ONNX Runtime 1.31.1, CUDA provider",
    evidence="read in its issues (#27030, #27542, #28388, #29020) and sources; nothing was run on a GPU",
    opsets=(7, 26),
    newest_ir_version=13,
    domains=STANDARD_DOMAINS | {"com.microsoft"},
    dtypes=_FLOATS | _INTEGERS | {"uint8", "bool"},
    quantized=frozenset({"int8", "uint8", "int4", "uint4", "float8e4m3fn"}),
    updates_cache_in_place=True,
    cache_dtypes=_FLOATS,
    constraints=(
        *_WHOLE_GRAPH,
        "ir-version",
        "attention-mask-query-axis",
        "attention-softcap",
        "attention-causal-lengths",
        "attention-head-size-nonpad",
    ),
)

_OPENVINO_CPU = RuntimeTarget(
    name="openvino-cpu",
    runtime="OpenVINO 2026.4.1, CPU plugin",
    evidence="measured: it compiled every graph of the tiny presets but those with TensorScatter",
    opsets=(1, 28),  # it refused no version that onnx 1.23 writes
    dtypes=_FLOATS | _INTEGERS | {"float64", "uint8", "bool"},
    quantized=frozenset({"int8", "uint8", "int4", "uint4", "float8e4m3fn"}),
    updates_cache_in_place=False,
    cache_dtypes=_FLOATS,
    missing_operators=frozenset({"TensorScatter"}),
    constraints=(*_WHOLE_GRAPH, "recurrent-lengths"),
)

_TENSORRT = RuntimeTarget(
    name="tensorrt",
    runtime="TensorRT 11, its ONNX parser",
    evidence="read in its documentation, its issues and its parser's sources; nothing was built or run on TensorRT",
    form="tensorrt",
    opsets=(9, 24),
    domains=STANDARD_DOMAINS | {"trt", "trt.plugins", "attendant"},
    dtypes=_FLOATS | _INTEGERS | {"uint8", "bool"},
    quantized=frozenset({"int8", "int4", "float8e4m3fn", "float4e2m1"}),
    updates_cache_in_place=True,
    cache_dtypes=_FLOATS,
    operators=_table(_TABLE),
    missing_types={"bfloat16": frozenset({"ConvTranspose"})},
    constraints=(
        *_WHOLE_GRAPH,
        "strong-types",
        "input-output-type",
        "quantized-type",
        "zero-point",
        "activation-scale",
        "scale-rank",
        "scale-shape",
        "scale-sign",
        "scale-type",
        "dequantize-type",
        "even-count",
        "float8-convolution",
        "constant-value",
        "attention-rank",
        "attention-past",
        "attention-lengths",
        "attention-outputs",
        "attention-softcap",
        "attention-softmax-precision",
        "attention-scale",
        "attention-decomposable",
        "attention-score-mode",
        "attention-causal-lengths",
        "attention-causal-mask",
        "attention-mask-axes",
        "attention-heads",
        "attention-in-if",
        "cache-rank",
        "cache-axis",
        "cache-mode",
        "cache-indices",
        "cache-input",
        "cache-output",
        "cache-pair",
        "cache-capacity",
        "cache-type",
        "rotary-positions",
        "layer-norm-outputs",
        "recurrent-type",
        "recurrent-layout",
        "recurrent-activations",
        "lstm-input-forget",
        "plugin-node",
        "plugin-alias",
        "if-branches",
        "loop-scan-length",
        "resize-antialias",
        "resize-transformation",
        "resize-mode",
        "resize-nearest",
        "resize-aspect",
        "pool-rank",
        "pool-dilations",
        "max-pool-indices",
        "reduce-axes",
        "squeeze-axes",
        "cumsum-axis",
        "one-hot-depth",
        "dropout-training",
        "top-k-sorted",
        "top-k-count",
        "scatter-reduction",
        "grid-sample-rank",
        "eye-like-shape",
        "hardmax-axis",
    ),
)

_TENSORRT_10 = replace(
    _TENSORRT,
    name="tensorrt-10.16",
    runtime="TensorRT 10.16, its ONNX parser",
    missing_operators=frozenset({"Swish"}),
)

_ALL = (_ORT_CPU, _ATTENDANT_CPU, _ORT_CUDA, _OPENVINO_CPU, _TENSORRT, _TENSORRT_10)
TARGETS = {target.name: target for target in _ALL}
