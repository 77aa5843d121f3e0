"""Read an artefact and profile its graphs: what :mod:`export.inspection.facts` holds."""

from collections import Counter
from pathlib import Path

from attendant.manifest import MANIFEST_NAME, Manifest
from attendant.progress import progress
from export.bounded.process import guarded
from export.inspection.facts import ArtefactFacts, Cache, GraphFacts, Weight
from export.inspection.timing import capacity, timings
from export.targets.constraints.graph import Graph


def inspect_artefact(folder: Path) -> ArtefactFacts:
    """Read an artefact and profile its graphs on this machine.

    Raises:
        ArtefactError: a file is not what the manifest says, or a graph fails as it is read or runs.
    """
    manifest = Manifest.read_onnx(folder)
    sizes = {name: (folder / name).stat().st_size for name in (*manifest.files, MANIFEST_NAME)}
    graphs = []
    with progress(f"inspect {manifest.name}", len(manifest.graphs)) as advance:
        for signature in manifest.graphs:
            served = manifest.signature_for(signature.name, "ort-cpu")
            path = folder / f"{signature.name}.onnx"
            with guarded(f"an ONNX graph at {path}"):
                graph = Graph(path, signature)
                opset = graph.opsets[""]
                found = (
                    Weight(name=name, dtype=graph.dtype(name), shape=tuple(proto.dims))
                    for name, proto in graph.initializers.items()
                )
                weights = tuple(sorted(found, key=lambda weight: -weight.nbytes))
            measured, reason = timings(folder, signature)
            kept = tuple(served.input(name) for name in served.aliases.values())
            graphs.append(
                GraphFacts(
                    signature=signature,
                    opset=opset,
                    operators=dict(Counter(node.operator for node in graph.nodes).most_common()),
                    weights=weights,
                    cache=Cache(tensors=kept, positions=capacity(served)) if kept else None,
                    timings=measured,
                    untimed=reason,
                )
            )
            advance(f"{signature.name}.onnx")
    return ArtefactFacts(
        manifest=manifest,
        graphs=tuple(graphs),
        files=dict(sorted(sizes.items(), key=lambda entry: -entry[1])),
    )
