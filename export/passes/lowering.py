"""For a target whose runtime has operators of its own: a second graph from the first, with the same tensors.

Caches alone can differ in type: what the first rounds to integers and keeps as floats, the second keeps as integers.

Where it pays, and where it does not, is in docs/log.md. Both graphs stay in the artefact: the first is the standard,
and the measure of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import onnx_ir as ir

from attendant.manifest import Lowered
from attendant.signature import DType, GraphSignature
from export.graph.outcome import Outcome, require_no_misses
from export.passes.openvino.attend_by_products import attend_by_products
from export.passes.openvino.divide_while_rounding import divide_while_rounding
from export.passes.openvino.gather_windows import gather_windows
from export.passes.openvino.normalise_rows import normalise_rows
from export.passes.openvino.round_before_moves import round_before_moves
from export.passes.openvino.round_score_factors import round_score_factors
from export.passes.openvino.scale_in_products import scale_in_products
from export.passes.ort.feed_attention_packed import feed_attention_packed
from export.passes.ort.lower_cached_attention import lower_cached_attention
from export.passes.ort.lower_signed_activations import lower_signed_activations
from export.passes.ort.rotate_in_attention import rotate_in_attention
from export.targets.targets import target_named

LOWERINGS: dict[str, tuple[Callable[[ir.Model], Outcome], ...]] = {
    "ort-cpu": (
        lower_cached_attention,
        rotate_in_attention,
        feed_attention_packed,
        lower_signed_activations,
        divide_while_rounding,
        scale_in_products,
    ),
    "openvino-cpu": (
        round_score_factors,
        gather_windows,
        attend_by_products,
        normalise_rows,
        round_before_moves,
    ),
}


def lowered_graphs(folder: Path, signatures: Iterable[GraphSignature]) -> tuple[Lowered, ...]:
    """Write a target's own form of every graph where a pass finds something to do; say of every cache what was found.

    Raises:
        ExportError: a pass left what is within the target's limits.
    """
    pairs = ((signature, target) for signature in signatures for target in LOWERINGS if _runs(target, signature))
    found = ((signature, _lowered(folder, signature, target)) for signature, target in pairs)
    return tuple(lowered for signature, lowered in found if lowered.file or signature.aliases)


def _runs(target: str, signature: GraphSignature) -> bool:
    return target_named(target).updates_cache_in_place or not signature.aliases


def _lowered(folder: Path, signature: GraphSignature, target: str) -> Lowered:
    model = ir.load(folder / f"{signature.name}.onnx")
    outcomes = [lower(model) for lower in LOWERINGS[target]]
    for outcome in outcomes:
        require_no_misses(outcome)
    graph = signature.name
    file = f"{graph}.{target}.onnx" if any(outcome.fired for outcome in outcomes) else ""
    if file:
        ir.save(model, folder / file)  # weights in another file stay there, for both
    told = (outcome.to_json() for outcome in outcomes if outcome.fired or outcome.refusals)
    return Lowered(graph=graph, target=target, file=file, passes=tuple(told), types=_types(model, signature))


def _types(model: ir.Model, signature: GraphSignature) -> dict[str, DType]:
    values = {value.name: value for value in (*model.graph.inputs, *model.graph.outputs)}
    found = ((spec, values[spec.name].dtype) for spec in (*signature.inputs, *signature.outputs))
    return {spec.name: "int8" for spec, dtype in found if dtype == ir.DataType.INT8 and spec.dtype != "int8"}
