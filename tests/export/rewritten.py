"""An artefact in another precision, made from one in float32 without exporting it again."""

import shutil
from dataclasses import replace

from attendant.manifest import MANIFEST_NAME, Manifest, sha256_of
from export.passes.lowering import lowered_graphs
from export.precision.precisions import PRECISIONS, require_task, signatures_in
from export.precision.rewriting import Given, rewrite_graphs, weight_types
from models.checkpoints.resolve import checkpoint_named


def rewritten(artefact, name, out, calibration=None):
    """Write the artefact in the precision of that name, calibrated with a file or with what it was trained on."""
    before, precision = Manifest.read(artefact), PRECISIONS[name]
    require_task(precision, before.task)
    signatures, checkpoint = signatures_in(precision, before.graphs), checkpoint_named(before.source)
    out.mkdir(parents=True)
    given = [
        Given(
            checkpoint=checkpoint,
            folder=artefact,
            signature=wanted,
            float32=exported,
            calibration=calibration,
            every=before.graphs,
        )
        for wanted, exported in zip(signatures, before.graphs, strict=True)
    ]
    done = rewrite_graphs(precision, given, out)
    for companion in artefact.iterdir():
        if ".onnx" not in companion.name and companion.name != MANIFEST_NAME:
            shutil.copy(companion, out)
    lowered = lowered_graphs(out, signatures)
    replace(
        before,
        graphs=signatures,
        **precision.in_manifest(),
        lowered=lowered,
        files={path.name: sha256_of(path) for path in sorted(out.iterdir())},
        types={one.name: weight_types(out / f"{one.name}.onnx") for one in signatures},
        passes={graph: [outcome.to_json() for outcome in outcomes] for graph, outcomes in done.items()},
    ).write(out)
    return out
