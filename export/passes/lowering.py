"""For a target whose runtime has operators, limits or types of its own: another graph, with the same tensors.

    X.onnx, the standard's ── passes of the target ──► X.<target>.onnx

It is made from the standard's graph, or from another of the same model: in integers that TensorRT's parser does not
read, what it does read is made from the float32 graph (:func:`export.precision.rewriting.weights_only_for_tensorrt`).
Tensors that graphs remember or hand to each other can differ in type: caches that the standard's graph rounds to
integers and keeps as floats are kept as integers, or those of float32 in half precision.

Where it pays, and where it does not, is in docs/log.md. All graphs stay in the artefact: the first is the standard,
and the measure of the others.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

import onnx_ir as ir

from attendant.manifest import Lowered
from attendant.signature import DType, GraphSignature
from export.graph.exported_graph import ExportedGraph, require_signature
from export.graph.rewrite import Rewrite, Rewrites
from export.passes.openvino.attend_by_products import AttendByProducts
from export.passes.openvino.batch_windows import BatchWindows
from export.passes.openvino.divide_while_rounding import DivideWhileRounding
from export.passes.openvino.gather_windows import GatherWindows
from export.passes.openvino.normalise_rows import NormaliseRows
from export.passes.openvino.part_convolutions import PartConvolutions
from export.passes.openvino.round_before_moves import RoundBeforeMoves
from export.passes.openvino.round_in_multiplications import RoundInMultiplications
from export.passes.openvino.round_score_factors import RoundScoreFactors
from export.passes.openvino.scale_in_products import ScaleInProducts
from export.passes.openvino.turn_weights import TurnWeights
from export.passes.ort.attend_in_cache import AttendInCache
from export.passes.ort.attend_packed import AttendPacked
from export.passes.ort.feed_attention_packed import FeedAttentionPacked
from export.passes.ort.finish_products import FinishProducts
from export.passes.ort.guard_integer_division import GuardIntegerDivision
from export.passes.ort.keep_caches_in_integers import KeepCachesInIntegers
from export.passes.ort.lower_cached_attention import LowerCachedAttention
from export.passes.ort.lower_signed_activations import LowerSignedActivations
from export.passes.ort.multiply_in_blocks import MultiplyInBlocks
from export.passes.ort.rotate_in_attention import RotateInAttention
from export.passes.tensorrt.passes import PASSES, TENSORRT
from export.targets.targets import target_named
from serving.runtime.ort.kernels.library import FORM

_ATTENTION = (KeepCachesInIntegers(), LowerCachedAttention(), RotateInAttention(), FeedAttentionPacked())
_PRODUCTS = (LowerSignedActivations(), DivideWhileRounding(), ScaleInProducts(), GuardIntegerDivision())
LOWERINGS: dict[str, tuple[Rewrite, ...]] = {
    "ort-cpu": (*_ATTENTION, *_PRODUCTS),
    FORM: (*_ATTENTION, AttendInCache(), AttendPacked(), MultiplyInBlocks(), FinishProducts(), *_PRODUCTS),
    "openvino-cpu": (
        RoundScoreFactors(),
        GatherWindows(),
        BatchWindows(),
        AttendByProducts(),
        NormaliseRows(),
        RoundBeforeMoves(),
        RoundInMultiplications(),
        TurnWeights(),
        PartConvolutions(),
    ),
    TENSORRT: PASSES,
}
_DECISIVE: dict[str, type[Rewrite]] = {FORM: MultiplyInBlocks}
"""Target → the pass without which its form would be another target's."""


def lower_graph(
    graph: ExportedGraph,
    folder: Path,
    targets: Iterable[str] = tuple(LOWERINGS),
    sources: Mapping[str, ExportedGraph] = MappingProxyType({}),
) -> list[Lowered]:
    """Write a target's own form of a graph where a pass finds something to do; say of every cache what was found.

    Args:
        graph: as it was written to the folder, whose large weights the forms share.
        folder: of the artefact.
        targets: names of some of :data:`LOWERINGS`.
        sources: target → the graph that its form is made from, where that is another; changed.

    Raises:
        ExportError: a pass left what is within the target's limits.
    """
    made = (_lower(graph, folder, target, sources.get(target)) for target in targets)
    return [lowered for lowered in made if lowered is not None]


def _lower(graph: ExportedGraph, folder: Path, target: str, source: ExportedGraph | None) -> Lowered | None:
    if graph.signature.aliases and not target_named(target).updates_cache_in_place:
        return None
    decisive = _DECISIVE.get(target)
    if decisive is not None and not any(node.op_type in decisive.operators for node in graph.model.graph):
        return None
    lowered = graph.copy() if source is None else source
    signature = lowered.signature
    rewrites = Rewrites(
        LOWERINGS[target],
        lambda model: require_signature(model, signature),
        lambda model: require_signature(model, signature, integers=True),
    )
    results = rewrites.run(lowered.model)
    counted = [result for one, result in zip(LOWERINGS[target], results, strict=True) if decisive in (None, type(one))]
    fired = source is not None or any(result.fired for result in counted)
    file = f"{graph.name}.{target}.onnx" if fired else ""
    if source is not None:
        source.write(folder, file)
    elif file:
        ir.save(lowered.model, folder / file)
    if not file and (decisive is not None or not graph.signature.aliases):
        return None
    done = [*(() if source is None else source.passes), *results]
    passes = tuple(result.to_json() for result in done if result.fired or result.refused)
    types = _changed_types(graph.signature, lowered.model)
    return Lowered(graph=graph.name, target=target, file=file, passes=passes, types=types)


def _changed_types(signature: GraphSignature, model: ir.Model) -> dict[str, DType]:
    found = {str(value.name): value.dtype for value in (*model.graph.inputs, *model.graph.outputs)}
    words = {name: cast(DType, str(dtype.numpy().name)) for name, dtype in found.items() if dtype is not None}
    specs = (*signature.inputs, *signature.outputs)
    return {spec.name: words[spec.name] for spec in specs if words[spec.name] != spec.dtype}
