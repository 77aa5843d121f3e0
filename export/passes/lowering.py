"""For a target whose runtime has operators of its own: a second graph from the first, with the same tensors.

Caches alone can differ in type: what the first rounds to integers and keeps as floats, the second keeps as integers.

Where it pays, and where it does not, is in docs/log.md. Both graphs stay in the artefact: the first is the standard,
and the measure of the second.
"""

from pathlib import Path

import onnx_ir as ir

from attendant.manifest import Lowered
from attendant.signature import DType
from export.graph.exported_graph import ExportedGraph, require_signature
from export.graph.rewrite import Rewrite, Rewrites
from export.passes.openvino.attend_by_products import AttendByProducts
from export.passes.openvino.divide_while_rounding import DivideWhileRounding
from export.passes.openvino.gather_windows import GatherWindows
from export.passes.openvino.normalise_rows import NormaliseRows
from export.passes.openvino.round_before_moves import RoundBeforeMoves
from export.passes.openvino.round_score_factors import RoundScoreFactors
from export.passes.openvino.scale_in_products import ScaleInProducts
from export.passes.ort.feed_attention_packed import FeedAttentionPacked
from export.passes.ort.lower_cached_attention import LowerCachedAttention
from export.passes.ort.lower_signed_activations import LowerSignedActivations
from export.passes.ort.rotate_in_attention import RotateInAttention
from export.targets.targets import target_named

LOWERINGS: dict[str, tuple[Rewrite, ...]] = {
    "ort-cpu": (
        LowerCachedAttention(),
        RotateInAttention(),
        FeedAttentionPacked(),
        LowerSignedActivations(),
        DivideWhileRounding(),
        ScaleInProducts(),
    ),
    "openvino-cpu": (
        RoundScoreFactors(),
        GatherWindows(),
        AttendByProducts(),
        NormaliseRows(),
        RoundBeforeMoves(),
    ),
}


def lower_graph(graph: ExportedGraph, folder: Path) -> list[Lowered]:
    """Write a target's own form of a graph where a pass finds something to do; say of every cache what was found.

    Args:
        graph: as it was written to the folder, whose large weights the forms share.
        folder: of the artefact.

    Raises:
        ExportError: a pass left what is within the target's limits.
    """
    found, signature = [], graph.signature
    for target, passes in LOWERINGS.items():
        if signature.aliases and not target_named(target).updates_cache_in_place:
            continue
        model = graph.model.clone()
        rewrites = Rewrites(
            passes,
            lambda model: require_signature(model, signature),
            lambda model: require_signature(model, signature, integers=True),
        )
        results = rewrites.run(model)
        file = f"{graph.name}.{target}.onnx" if any(result.fired for result in results) else ""
        if file:
            ir.save(model, folder / file)
        if file or signature.aliases:
            values = (*model.graph.inputs, *model.graph.outputs)
            narrow = {str(value.name) for value in values if value.dtype == ir.DataType.INT8}
            types: dict[str, DType] = {
                spec.name: "int8"
                for spec in (*signature.inputs, *signature.outputs)
                if spec.name in narrow and spec.dtype != "int8"
            }
            done = tuple(result.to_json() for result in results if result.fired or result.refused)
            found.append(Lowered(graph=graph.name, target=target, file=file, passes=done, types=types))
    return found
