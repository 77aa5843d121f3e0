"""From an artefact's float32 graphs to those of another precision: passes, their order, and what they did.

    float32 graph ── passes of the precision ──► X.onnx ── lowering (export/passes/lowering.py) ──► X.<target>.onnx

A weight that a pass replaces keeps its name in front: ``W`` becomes ``W.int8`` and ``W.scale``. So the map from weights
to the checkpoint's parameters stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import onnx
import onnx_ir as ir

from attendant.errors import InputError
from attendant.signature import GraphSignature
from export.graph.onnx_graph import check_graph, origins_of, save_graph
from export.graph.outcome import Outcome, require_no_misses
from export.graph.weights import Origins
from export.passes.ort.pack_products import BETWEEN, pack_products
from export.passes.quantise.block_quantisers import half_quadratic
from export.passes.quantise.lower_precision import lower_precision
from export.passes.quantise.quantise_caches import quantise_caches
from export.passes.quantise.quantise_dynamic import quantise_dynamic
from export.passes.quantise.quantise_static import quantise_static
from export.passes.quantise.quantise_tables import quantise_tables
from export.passes.quantise.quantise_weights import quantise_weights
from export.passes.quantise.sensitive_places import sensitive_places
from export.precision.precisions import Precision
from export.targets.restrictions.graph import type_word
from models.checkpoints.store import Checkpoint

Pass = Callable[[ir.Model], Outcome]
_FEW = 64
"""Numbers up to which a vector counts as no weight: scales, bounds, shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the passes for one graph are chosen from.

    Attributes:
        checkpoint: the model, with its own data and companions, for passes that are calibrated.
        calibration: the file or folder with other samples for them; none if not given.
        every: the signatures of all graphs in ``folder``, in the order in which a request passes them.
        folder: where the float32 graphs of the artefact lie, all of them.
        signature: the graph's, in the precision.
        float32: the same in float32, as the graph in ``folder`` has it.
    """

    checkpoint: Checkpoint
    folder: Path
    signature: GraphSignature
    float32: GraphSignature
    calibration: Path | None = None
    every: tuple[GraphSignature, ...] = ()


def _narrow(dtype: ir.DataType) -> Callable[[Given], Sequence[Pass]]:
    def passes(given: Given) -> Sequence[Pass]:
        specs = (*given.signature.inputs, *given.signature.outputs)
        names = {spec.name for spec in specs if spec.dtype == dtype.numpy().name}
        return (partial(lower_precision, dtype=dtype, narrow=names, sensitive=sensitive_places(dtype)),)

    return passes


def _static_passes(given: Given) -> Sequence[Pass]:
    from export.precision.calibration.calibrate import calibrate  # runs graphs: other precisions need no runtime

    found = calibrate(given.checkpoint, given.folder, given.every, given.float32.name, given.calibration)
    return (lambda model: replace(quantise_static(model, found.largest), calibration=found.to_json()),)


def _cached_passes(given: Given) -> Sequence[Pass]:
    # The last product in 4 bits as well: a step of many rows reads it, their caches, and little else.
    weights: Sequence[Pass] = (pack_products, partial(quantise_weights, block_size=256), quantise_tables)
    if not any(spec.name == "self_mask" for spec in given.signature.inputs):
        return weights
    from export.precision.calibration.calibrate import calibrate_caches

    found = calibrate_caches(given.checkpoint, given.folder, given.every, given.float32.name, given.calibration)
    return (
        *weights,
        lambda model: replace(quantise_caches(model, found.largest), calibration=found.to_json()),
    )


_LAST_IN_8_BITS = partial(quantise_dynamic, last_only=True)
PASSES: dict[str, Callable[[Given], Sequence[Pass]]] = {
    "fp32": lambda _: (),
    "fp16": _narrow(ir.DataType.FLOAT16),
    "bf16": _narrow(ir.DataType.BFLOAT16),
    "int8": lambda _: (pack_products, quantise_dynamic, quantise_tables),
    "int8-static": _static_passes,
    "int4": lambda _: (pack_products, _LAST_IN_8_BITS, quantise_tables, partial(quantise_weights, block_size=256)),
    "int4-hqq": lambda _: (
        pack_products,
        _LAST_IN_8_BITS,
        quantise_tables,
        partial(quantise_weights, block_size=64, quantiser=half_quadratic),
    ),
    "int4-kv8": _cached_passes,
}
"""Precision → the passes for a graph, in order."""


def rewrite_graphs(precision: Precision, graphs: Sequence[Given], out: Path) -> dict[str, tuple[Outcome, ...]]:
    """Write every graph in a precision.

    Args:
        precision: which one.
        graphs: all of an artefact's.
        out: the folder to write; not that of the float32 graphs.

    Returns:
        Graph → what each pass did.

    Raises:
        ExportError: a pass missed a place, or left a graph that is not of the standard.
        InputError: no graph holds anything that the precision applies to.
    """
    done = {given.signature.name: _rewritten(PASSES[precision.name](given), given, out) for given in graphs}
    if not any(outcome.fired for outcomes in done.values() for outcome in outcomes):
        raise InputError(
            f"a model with something to rewrite in {precision.name}",
            f"nothing in {', '.join(done)}: {[why for one in done.values() for each in one for why in each.refusals]}",
            "choose another --precision",
        )
    return done


def weight_types(path: Path) -> dict[str, str]:
    """The element type of each weight of a written graph, in NumPy's words: without short vectors."""
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    return {
        one.name: type_word(one.data_type) for one in tensors if len(one.dims) > 1 or max(one.dims, default=0) > _FEW
    }


def _rewritten(passes: Sequence[Pass], given: Given, out: Path) -> tuple[Outcome, ...]:
    name = f"{given.signature.name}.onnx"
    model = ir.load(given.folder / name)
    outcomes = tuple(rewrite(model) for rewrite in passes)
    for outcome in outcomes:
        require_no_misses(outcome)
    origins = carried_origins(model, origins_of(given.folder / name))
    save_graph(model, out / name, given.signature, origins)
    check_graph(out / name, given.signature)
    return outcomes


def carried_origins(model: ir.Model, origins: Origins) -> Origins:
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
