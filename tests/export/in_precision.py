"""An artefact in another precision, made from float32 graphs without exporting them again, and what must hold of it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from attendant.manifest import MANIFEST_NAME, Manifest, sha256_of
from export.parity.ladder import climb
from export.parity.parity import rungs_of
from export.passes.lowering import lowered_graphs
from export.precision.precisions import precision_named, signatures_in
from export.precision.rewriting import Given, rewrite_graphs, weight_types
from export.targets.check import hold_to_target
from models.checkpoints.resolve import checkpoint_named


def artefact_in(name: str, folder: Path, out: Path) -> Manifest:
    """Do to a float32 artefact what `export onnx --precision` does between the export and the manifest."""
    manifest, precision = Manifest.read(folder), precision_named(name)
    checkpoint = checkpoint_named(manifest.source)
    signatures = signatures_in(precision, manifest.graphs)
    graphs = [
        Given(checkpoint=checkpoint, folder=folder, signature=wanted, float32=plain)
        for wanted, plain in zip(signatures, manifest.graphs, strict=True)
    ]
    out.mkdir()
    done = rewrite_graphs(precision, graphs, out)
    for path in folder.iterdir():
        if ".onnx" not in path.name and path.name not in (MANIFEST_NAME, "reproduce.sh", "parity.json"):
            shutil.copyfile(path, out / path.name)
    made = replace(
        manifest,
        graphs=signatures,
        lowered=lowered_graphs(out, signatures) if precision.ort_cpu else (),
        files={path.name: sha256_of(path) for path in sorted(out.iterdir())},
        **precision.in_manifest(),
        types={one.name: weight_types(out / f"{one.name}.onnx") for one in signatures},
        passes={graph: [outcome.to_json() for outcome in outcomes] for graph, outcomes in done.items()},
    )
    made.write(out)
    return made


def hold_in_narrow_types(folder: Path, place: Path) -> None:
    """Every family in fp16 and bf16: weights of that type, what TensorRT reads, and the ladder within the tolerance."""
    for name, dtype in (("fp16", "float16"), ("bf16", "bfloat16")):
        artefact = place / name
        made = artefact_in(name, folder, artefact)
        assert {dtype} <= {found for types in made.types.values() for found in types.values()} <= {dtype, "float32"}
        assert {spec.dtype for one in made.graphs for spec in one.inputs if spec.name in one.aliases.values()} <= {
            dtype
        }
        _, verdicts = hold_to_target(artefact, "tensorrt")
        assert [verdict for verdict in verdicts if verdict.breaches] == []
        rungs = rungs_of(climb(artefact), precision_named(name))
        assert [rung for rung in rungs if not rung.passed] == []
        assert {rung.graph for rung in rungs if name in rung.name} == {one.name for one in made.graphs}
