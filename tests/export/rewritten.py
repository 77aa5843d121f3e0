"""An artefact in another precision, made from one in float32 without exporting it again."""

import shutil
from dataclasses import replace

from attendant.manifest import MANIFEST_NAME, Manifest, sha256_of
from export.graph.exported_graph import ExportedGraph
from export.precision.precisions import PRECISIONS, require_task
from export.precision.rewriting import lower_graphs, rewrite_graphs, weights_only_for_tensorrt
from models.checkpoints.resolve import checkpoint_named


def read_graphs(folder):
    """Every graph of an artefact."""
    return [ExportedGraph.read(folder, signature) for signature in Manifest.read(folder).graphs]


def rewritten(artefact, name, out, samples=None):
    """Write the artefact in the precision of that name, calibrated with a file or with what it was trained on."""
    before, precision = Manifest.read(artefact), PRECISIONS[name]
    require_task(precision, before.task)
    float32 = read_graphs(artefact)
    sources = weights_only_for_tensorrt(precision, float32)
    graphs = rewrite_graphs(precision, checkpoint_named(before.source), artefact, float32, samples)
    out.mkdir(parents=True)
    for graph in graphs:
        graph.write(out)
    lowered = lower_graphs(graphs, out, precision, sources)
    for companion in artefact.iterdir():
        if ".onnx" not in companion.name and companion.name not in (MANIFEST_NAME, "reproduce.sh", "parity.json"):
            shutil.copy(companion, out)
    replace(
        before,
        graphs=tuple(graph.signature for graph in graphs),
        **precision.in_manifest(),
        lowered=tuple(lowered),
        files={path.name: sha256_of(path) for path in sorted(out.iterdir())},
        types={graph.name: graph.weight_types() for graph in graphs},
        passes={graph.name: [result.to_json() for result in graph.passes] for graph in graphs},
    ).write(out)
    return out
