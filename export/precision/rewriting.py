"""From an artefact's float32 graphs to those of another precision: passes, their order, and what they did.

    float32 graph ─┬─ passes of the precision ──► X.onnx ── lowering (export/passes/lowering.py) ──► X.<target>.onnx
                   └─ weights alone in integers, where X.onnx has integers beyond them ── lowering ──► X.tensorrt.onnx

A weight that a pass replaces keeps its name in front: ``W`` becomes ``W.int8`` and ``W.scale``. So the map from weights
to the checkpoint's parameters stays whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import onnx_ir as ir

from attendant.errors import InputError
from attendant.manifest import Lowered
from attendant.signature import GraphSignature
from attendant.tensor_names import PREFILL
from export.graph.exported_graph import ExportedGraph, Origins, require_signature, require_standard
from export.graph.rewrite import Rewrite, Rewrites
from export.passes.lowering import LOWERINGS, lower_graph
from export.passes.openvino.part_convolutions import PartConvolutions
from export.passes.openvino.turn_weights import TurnWeights
from export.passes.ort.pack_products import BETWEEN, PackProducts
from export.passes.quantise.block_quantisers import half_quadratic
from export.passes.quantise.keep_integers import KeepIntegers, Kept
from export.passes.quantise.lower_precision import LowerPrecision
from export.passes.quantise.quantise_caches import QuantiseCaches
from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from export.passes.quantise.quantise_float8 import QuantiseFloat8
from export.passes.quantise.quantise_static import QuantiseStatic
from export.passes.quantise.quantise_tables import QuantiseTables
from export.passes.quantise.quantise_weights import QuantiseWeights
from export.passes.quantise.quantise_weights_only import QuantiseWeightsOnly
from export.passes.quantise.sensitive_places import sensitive_places
from export.passes.tensorrt.passes import TENSORRT
from export.precision.precisions import PRECISIONS, Precision, signatures_in
from models.checkpoints.store import Checkpoint

_HALF = ir.DataType.FLOAT16


@dataclass(frozen=True, slots=True, kw_only=True)
class PassInputs:
    """What the passes for one graph are chosen from.

    Attributes:
        checkpoint: the model, with its own data and companions, for passes that are calibrated.
        folder: where the float32 graphs of the artefact lie, all of them, for runs that calibrate.
        graphs: all of them, in the order in which a request passes them.
        graph: the one to rewrite.
        signature: the graph's, in the precision.
        samples: the file or folder with other samples for calibration; none if not given.
        kept: which of the graph's weights the checkpoint holds in integers.
    """

    checkpoint: Checkpoint
    folder: Path
    graphs: Sequence[ExportedGraph]
    graph: ExportedGraph
    signature: GraphSignature
    samples: Path | None
    kept: Kept


def _lower_precision(dtype: ir.DataType, signature: GraphSignature) -> LowerPrecision:
    specs = (*signature.inputs, *signature.outputs)
    names = {spec.name for spec in specs if spec.dtype == dtype.numpy().name}
    return LowerPrecision(dtype, names, sensitive_places(dtype))


def _static_passes(inputs: PassInputs) -> Sequence[Rewrite]:
    from export.precision.calibration.calibrate import calibrate  # runs graphs: other precisions need no runtime

    found = calibrate(inputs.checkpoint, inputs.folder, inputs.graphs, inputs.graph, inputs.samples)
    return (QuantiseStatic(found.largest, found.to_json()),)


def _float8_passes(inputs: PassInputs) -> Sequence[Rewrite]:
    from export.precision.calibration.calibrate import calibrate

    found = calibrate(inputs.checkpoint, inputs.folder, inputs.graphs, inputs.graph, inputs.samples)
    return (QuantiseFloat8(found.largest, found.to_json()), _lower_precision(_HALF, inputs.signature))


def _cached_passes(inputs: PassInputs) -> Sequence[Rewrite]:
    # The last product in 4 bits as well: a step of many rows reads it, their caches, and little else.
    weights = _kept_passes(inputs) or (PackProducts(), QuantiseWeights(block_size=256), QuantiseTables())
    if not any(spec.name == "self_mask" for spec in inputs.signature.inputs):
        return weights
    from export.precision.calibration.calibrate import calibrate_caches

    found = calibrate_caches(inputs.checkpoint, inputs.folder, inputs.graphs, inputs.graph, inputs.samples)
    return (*weights, QuantiseCaches(found.largest, found.to_json()))


def _kept_passes(inputs: PassInputs) -> Sequence[Rewrite]:
    if not inputs.kept:
        return ()
    kinds = {name: one.kind for name, one in inputs.kept.items()}
    return (PackProducts(kinds), KeepIntegers(inputs.kept), QuantiseDynamic(last_only=True), QuantiseTables())


_LAST_IN_8_BITS = (PackProducts(), QuantiseDynamic(last_only=True), QuantiseTables())
PASSES: dict[str, Callable[[PassInputs], Sequence[Rewrite]]] = {
    "fp32": lambda _: (),
    "fp16": lambda inputs: (_lower_precision(_HALF, inputs.signature),),
    "bf16": lambda inputs: (
        _lower_precision(ir.DataType.BFLOAT16, inputs.signature),
        TurnWeights(),
        PartConvolutions(),
    ),
    "fp8": _float8_passes,
    "int8": lambda inputs: _kept_passes(inputs) or (PackProducts(), QuantiseDynamic(), QuantiseTables()),
    "int8-static": _static_passes,
    "int4": lambda inputs: _kept_passes(inputs) or (*_LAST_IN_8_BITS, QuantiseWeights(block_size=256)),
    "int4-hqq": lambda _: (*_LAST_IN_8_BITS, QuantiseWeights(block_size=64, quantiser=half_quadratic)),
    "int4-kv8": _cached_passes,
}
"""Precision → the passes for a graph, in order."""
DEFINED_BY = {"fp8": "quantise_float8"}
"""Precision → the pass without which it is another one: a graph of half precision alone is fp16."""


def _last_alone_in_8_bits(kept: Kept) -> Sequence[Rewrite]:
    return QuantiseWeightsOnly(bits=8, last_only=True, kept=kept), QuantiseWeightsOnly(bits=4, kept=kept)


WEIGHTS_ONLY: dict[str, Callable[[Kept], Sequence[Rewrite]]] = {
    "int8": lambda kept: (QuantiseWeightsOnly(bits=8, kept=kept),),
    "int4": _last_alone_in_8_bits,
    "int4-hqq": _last_alone_in_8_bits,
    "int4-kv8": lambda kept: (QuantiseWeightsOnly(bits=4, kept=kept),),
}
"""Precision whose integers TensorRT's parser does not read → the passes for the weights of its form."""


def rewrite_graphs(
    precision: Precision,
    checkpoint: Checkpoint,
    folder: Path,
    graphs: Sequence[ExportedGraph],
    samples: Path | None = None,
    kept: Mapping[str, Kept] | None = None,
    prefill: Precision | None = None,
) -> list[ExportedGraph]:
    """Rewrite the graphs of an artefact in a precision, in place.

    Args:
        precision: which one; the graphs are returned as they are where it has no passes.
        checkpoint: the model that they compute.
        folder: where their files lie, in float32.
        graphs: all of them.
        samples: as :func:`export.precision.calibration.samples.samples_for` takes them.
        kept: graph → which of its weights the checkpoint holds in integers.
        prefill: of the graph that reads prompts, which rounds what it caches as the decoder does.

    Raises:
        ExportError: a pass missed a place, or left a graph that is not of the standard.
        InputError: no graph holds anything that the precision applies to.
    """
    signatures = signatures_in(precision, (graph.signature for graph in graphs))
    reads_prompts = [prefill is not None and graph.name == PREFILL for graph in graphs]
    chosen = [
        PASSES[prefill.name if apart and prefill else precision.name](
            PassInputs(
                checkpoint=checkpoint,
                folder=folder,
                graphs=graphs,
                graph=graph,
                signature=signature,
                samples=samples,
                kept={} if apart else (kept or {}).get(graph.name, {}),
            )
        )
        for graph, signature, apart in zip(graphs, signatures, reads_prompts, strict=True)
    ]  # before the first is changed: calibration runs them in float32
    if not any(chosen):
        return list(graphs)
    rounding = [one for passes in chosen for one in passes if isinstance(one, QuantiseCaches)][:1]
    chosen = [(*passes, *rounding) if apart else passes for passes, apart in zip(chosen, reads_prompts, strict=True)]
    done = [rewrite_graph(*one) for one in zip(graphs, chosen, signatures, strict=True)]
    results = [result for graph in done for result in graph.passes]
    if not any(result.fired for result in results if DEFINED_BY.get(precision.name, result.name) == result.name):
        refused = [why for result in results for why in result.refused]
        raise InputError(
            f"a model with something to rewrite in {precision.name}",
            f"nothing in {', '.join(graph.name for graph in done)}: {refused}",
            "choose another --precision",
        )
    return done


def weights_only_for_tensorrt(
    precision: Precision, graphs: Sequence[ExportedGraph], kept: Mapping[str, Kept] | None = None
) -> dict[str, ExportedGraph]:
    """What TensorRT reads in the place of graphs that multiply integers: weights of integers, all else half precision.

    Args:
        precision: which one.
        graphs: all of the artefact's, in float32; left as they are.
        kept: as :func:`rewrite_graphs` takes it.

    Returns:
        Graph → its form, caches and memories in half precision; none where the precision's own graphs are read.

    Raises:
        ExportError: a pass missed a place, or left a graph that is not of the standard.
    """
    if precision.name not in WEIGHTS_ONLY:
        return {}
    graphs = [graph for graph in graphs if graph.name != PREFILL]
    signatures = signatures_in(PRECISIONS["fp16"], (graph.signature for graph in graphs))
    return {
        graph.name: rewrite_graph(
            graph.copy(),
            (*WEIGHTS_ONLY[precision.name]((kept or {}).get(graph.name, {})), _lower_precision(_HALF, signature)),
            signature,
        )
        for graph, signature in zip(graphs, signatures, strict=True)
    }


def lower_graphs(
    graphs: Sequence[ExportedGraph],
    folder: Path,
    precision: Precision,
    sources: Mapping[str, ExportedGraph] = MappingProxyType({}),
) -> list[Lowered]:
    """Write the forms of an artefact's graphs for all targets that run its precision.

    Args:
        graphs: as they were written to the folder.
        folder: of the artefact.
        precision: theirs.
        sources: what :func:`weights_only_for_tensorrt` made.

    Raises:
        ExportError: a pass left what is within a target's limits.
    """
    targets = tuple(LOWERINGS) if precision.ort_cpu else (TENSORRT,)
    found = []
    for graph in graphs:
        source = {TENSORRT: sources[graph.name]} if graph.name in sources else {}
        found += lower_graph(
            graph, folder, [one for one in targets if one != TENSORRT or graph.name != PREFILL], source
        )
    return found


def rewrite_graph(graph: ExportedGraph, passes: Sequence[Rewrite], signature: GraphSignature) -> ExportedGraph:
    """Run passes over a graph, in place, after which it is of the standard and has another signature."""

    def require(model: ir.Model) -> None:
        require_signature(model, signature)
        require_standard(model)

    rewrites = Rewrites(passes, lambda model: require_signature(model, graph.signature), require)
    results = rewrites.run(graph.model)
    origins = carry_origins(graph.model, graph.origins)
    return replace(graph, signature=signature, origins=origins, passes=results)


def carry_origins(model: ir.Model, origins: Origins) -> Origins:
    """The origins of a rewritten graph's weights: those of the longest former name that the weight's begins with.

    A weight that was packed from several has the names of all.
    """
    found = {name: [_former(part, origins) for part in name.split(BETWEEN)] for name in model.graph.initializers}
    return {
        name: [origin for former in parts if former is not None for origin in origins[former]]
        for name, parts in found.items()
        if None not in parts
    }


def _former(name: str, origins: Origins) -> str | None:
    while name not in origins:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return name
