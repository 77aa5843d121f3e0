"""Lay decoders out as models whose states Triton keeps.

<out>/<name>-<graph>/config.pbtxt        <out>/<name>-<graph>/1/model.onnx, or room for model.plan
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from models.manifest import Manifest
from serving.lint.backends import BACKENDS
from serving.repository.implicit_state import StateBackend, implicit_state_configs
from serving.repository.layout import CONFIG_NAME, VERSION, replaced_models, require_different_names
from serving.repository.pbtxt import pbtxt_from_config

_ONNX = "onnxruntime"


def write_implicit_states(folders: Iterable[Path], out: Path, backend: StateBackend) -> list[Any]:
    """Add or replace the graphs of artefacts in a repository, each as a model; models that are not named stay.

    The versions' folders of ``tensorrt`` are left empty: nothing here builds an engine.

    Args:
        folders: artefacts.
        out: the repository; an error or an interruption leaves it as it was.
        backend: that runs the graphs.

    Returns:
        The configurations written.

    Raises:
        ArtefactError: an artefact is damaged, shares its name with another, or has no states that Triton can keep.
        OutputError: the repository cannot be written, or holds something that is no model.
    """
    artefacts = [(folder, Manifest.read_onnx(folder)) for folder in folders]
    require_different_names([manifest for _, manifest in artefacts])
    made = [(folder, implicit_state_configs(manifest, backend)) for folder, manifest in artefacts]
    configs = [config for _, graphs in made for config in graphs.values()]
    with replaced_models(out, {config.name for config in configs}) as staged:
        for folder, graphs in made:
            for graph, config in graphs.items():
                _write_model(folder, graph, config, staged / config.name)
    return configs


def _write_model(folder: Path, graph: str, config: Any, model: Path) -> None:
    version = model / VERSION
    version.mkdir(parents=True)
    (model / CONFIG_NAME).write_text(pbtxt_from_config(config), encoding="utf-8")
    if config.backend != _ONNX:
        return
    shutil.copyfile(folder / f"{graph}.onnx", version / BACKENDS[_ONNX].files[0])
    for path in folder.glob(f"{graph}.onnx.*"):  # weights in a file of their own, which the graph names
        shutil.copyfile(path, version / path.name)
