"""Engines of one export with the weights of another, without building: minutes become seconds.

Weights are known by their names in the ONNX graph. The manifests say which of the checkpoint's parameters each was made
from: two exports of one architecture name the same, whatever the weights are.
"""

from dataclasses import replace
from pathlib import Path

from attendant.engine_manifest import Engine, EngineManifest
from attendant.errors import ArtefactError
from attendant.folders import one_at_a_time, replaced_folder
from attendant.manifest import Manifest, sha256_of
from export.tensorrt.build import copy_artefact, sources_of
from export.tensorrt.compat import open_plan
from serving.runtime.tensorrt.engine_match import require_match
from serving.runtime.tensorrt.known_engines import remember_engines, require_known
from serving.runtime.tensorrt.library import tensorrt_module
from serving.runtime.tensorrt.this_machine import this_platform


def refit_engines(folder: Path, source: Path) -> EngineManifest:
    """Put the engines of another export beside an artefact's graphs, with its own weights.

    Args:
        folder: the artefact that has the weights; replaced in one step.
        source: the artefact that has the engines.

    Raises:
        MachineError: there is no TensorRT here, or the engines were built for another machine.
        ArtefactError: a file is damaged; there are no engines, they are of somebody else, or their weights are fixed;
            the graphs are not the same.
    """
    tensorrt_module()
    manifest, other = Manifest.read(folder), Manifest.read(source)
    manifest.verify(folder)
    engines = EngineManifest.read(source)
    if engines is None:
        raise ArtefactError(f"engines in {source}", "none", "build them: `attendant export tensorrt`")
    require_known(source)
    engines.verify(source, other)
    require_same_graphs(manifest, other, engines)
    require_match(engines, this_platform())
    with one_at_a_time(folder), replaced_folder(folder) as staged:
        copy_artefact(folder, manifest, staged)
        made = tuple(_refit(engine, source, staged, manifest) for engine in engines.engines)
        refitted = replace(engines, name=manifest.name, engines=made)
        refitted.write(staged)
    remember_engines(folder)
    return refitted


def require_same_graphs(manifest: Manifest, other: Manifest, engines: EngineManifest) -> None:
    """Refuse weights that are not those of the engines' graphs.

    Raises:
        ArtefactError: weights are fixed, or an artefact has another graph, other tensors or other weights.
    """
    for engine in engines.engines:
        if engine.weights == "fixed":
            raise ArtefactError("an engine built with --weights refittable", f"{engine.file}, fixed", "build it so")
        pairs = [(one.graph(engine.graph), one.weights.get(engine.graph), one.precision) for one in (manifest, other)]
        if pairs[0] != pairs[1]:
            raise ArtefactError(
                f"two exports of one architecture in one precision for {engine.file}",
                f"{manifest.name!r} and {other.name!r}, whose tensors or weights differ",
                "build the engines of each: `attendant export tensorrt`",
            )


def _refit(engine: Engine, source: Path, staged: Path, manifest: Manifest) -> Engine:
    plan = (source / engine.file).read_bytes()
    if engine.weights == "refittable":  # one without weights takes them from the graph when it is loaded
        opened = open_plan(plan, engine.version_compatible, staged / engine.source)
        plan = bytes(opened.serialize())
    path = staged / engine.file
    path.write_bytes(plan)
    return replace(engine, sha256=sha256_of(path), built_from=sources_of(manifest, staged, engine.source))
