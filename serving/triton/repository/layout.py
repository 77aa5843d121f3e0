"""Lay artefacts out as a Triton model repository, all in one step.

<out>/<name>/config.pbtxt, labels.txt        <out>/<name>/1/model.py, manifest.json, graphs, tokenizer, engines
Where Triton's own TensorRT backend serves a model: <out>/<name>/1/manifest.json, engine.json, model.plan
Where it runs a text encoder's graph: that, in <out>/<name>-tokens, beside the model that tokenizes and asks it
"""

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from attendant.engine_manifest import EngineManifest
from attendant.errors import ArtefactError, OutputError
from attendant.folders import one_at_a_time, replaced_folder
from attendant.manifest import Manifest
from attendant.parameters import GRAPH_MODEL, Device, Runtime
from attendant.tasks import task_named
from attendant.tokenization import TOKENIZER_FILES, has_tokenizer
from serving.engine.settings import EngineSettings
from serving.runtime.create_runners import engines_for
from serving.runtime.executable import require_executable
from serving.runtime.tensorrt.known_engines import require_known
from serving.triton.repository.chat_template import FILE_NAME as TEMPLATE_NAME
from serving.triton.repository.chat_template import add_chat_template
from serving.triton.repository.model_config import LABELS_NAME, model_config_from_manifest, require_types_of_python
from serving.triton.repository.pbtxt import pbtxt_from_config
from serving.triton.repository.tensorrt_config import serve_with_tensorrt, tokens_engine, tokens_model, triton_engine

CONFIG_NAME = "config.pbtxt"
VERSION = "1"
_MODEL_PY = '''"""Triton looks for this class here; its body is {path}.py."""
from {body} import TritonPythonModel as TritonPythonModel
'''


def write_repository(
    folders: Iterable[Path],
    out: Path,
    threads: int = 1,
    runtime: Runtime = "auto",
    engine: EngineSettings | None = None,
    device: Device = "auto",
    instances: int = 1,
) -> list[Manifest]:
    """Add or replace models in a repository; models that are not named stay.

    Args:
        folders: artefacts.
        out: the repository; an error or an interruption leaves it as it was.
        threads: that one run of a graph may use.
        runtime: that runs their graphs; ``auto`` takes the engines that lie in an artefact.
        engine: how much at once, of models that write.
        device: that torch runs artefacts of ``export torch`` on.
        instances: processes of each model.

    Returns:
        The manifests of the models written.

    Raises:
        ConfigError: fewer than one thread or instance, or a runtime or device that an artefact's form has not.
        ArtefactError: an artefact is damaged, incomplete, or shares its name with another.
        MachineError: no runtime on a CPU executes one.
        OutputError: the repository cannot be written, or holds something that is no model.
    """
    artefacts = [_read_artefact(folder) for folder in folders]
    manifests = [manifest for _, manifest in artefacts]
    plans = {manifest.name: _engines(folder, manifest, runtime) for folder, manifest in artefacts}
    for manifest in manifests:
        require_executable(manifest, runtime, device, plans[manifest.name])
    require_different_names(manifests)
    with replaced_models(out, {name for manifest in manifests for name in _model_names(manifest)}) as staged:
        for folder, manifest in artefacts:
            config = model_config_from_manifest(manifest, threads, runtime, engine, device, instances)
            if TEMPLATE_NAME in manifest.files and has_tokenizer(manifest.files):
                add_chat_template(config, folder)
            engines = plans[manifest.name]
            if tokens_engine(manifest, engines) is not None:
                tokens = replace(manifest, name=tokens_model(manifest), task="predict", details={}, example={})
                _write_model(folder, tokens, staged / tokens.name, model_config_from_manifest(tokens), engines)
                config.parameters[GRAPH_MODEL].string_value, engines = tokens_model(manifest), None
            _write_model(folder, manifest, staged / manifest.name, config, engines)
    return manifests


@contextmanager
def replaced_models(out: Path, names: Collection[str]) -> Iterator[Path]:
    """The repository without some models, to be written anew; at the end it takes the old one's place.

    Args:
        out: the repository; an error or an interruption leaves it as it was.
        names: the models that are to be written.

    Yields:
        The folder to write them into.

    Raises:
        OutputError: the repository cannot be written, or holds something that is no model.
    """
    with one_at_a_time(out):  # or two would each keep what the other replaces
        kept = [path for path in _models_in(out) if path.name not in names]
        with replaced_folder(out) as staged:
            for path in kept:
                if path.is_symlink():
                    (staged / path.name).symlink_to(path.readlink())
                else:
                    shutil.copytree(path, staged / path.name, symlinks=True, copy_function=os.link)
            yield staged


def _read_artefact(folder: Path) -> tuple[Path, Manifest]:
    manifest = Manifest.read(folder)
    manifest.verify(folder)
    needs_one = task_named(manifest.task).reads == "text" and manifest.task != "generate"
    if needs_one and not has_tokenizer(manifest.files):
        either = ", or ".join(" and ".join(names) for names in TOKENIZER_FILES)
        raise ArtefactError(
            f"a tokenizer in the artefact {folder}, to {manifest.task} text: {either}",
            f"{sorted(manifest.files)}",
            "put it beside the checkpoint's weights and export again (a preset has none)",
        )
    return folder, manifest


def _engines(folder: Path, manifest: Manifest, runtime: Runtime) -> EngineManifest | None:
    engines = engines_for(folder, runtime)
    if engines is not None:
        require_known(folder)
        engines.verify(folder, manifest)
    return engines


def _model_names(manifest: Manifest) -> list[str]:
    return [manifest.name, *([tokens_model(manifest)] if manifest.task == "embed" else [])]


def require_different_names(manifests: Sequence[Manifest]) -> None:
    """Refuse artefacts that would be one model.

    Raises:
        ArtefactError: two share a name.
    """
    names = [name for manifest in manifests for name in _model_names(manifest)]
    if len(set(names)) < len(names):
        raise ArtefactError("artefacts of different names", str(sorted(names)), "name each model once")


def _models_in(out: Path) -> list[Path]:
    entries = sorted(out.iterdir()) if out.is_dir() else []
    foreign = [path.name for path in entries if not (path / CONFIG_NAME).is_file()]
    if foreign:
        raise OutputError(
            f"a model repository or an empty folder at {out}",
            f"{foreign[:3]}, which are no models",
            "choose another --out: this one would be replaced",
        )
    return entries


def _write_model(folder: Path, manifest: Manifest, model: Path, config: Any, engines: EngineManifest | None) -> None:
    version = model / VERSION
    version.mkdir(parents=True)
    by_triton = triton_engine(manifest, engines)
    if by_triton is not None:
        serve_with_tensorrt(config, manifest.graph(by_triton.graph), by_triton)
    else:
        require_types_of_python(config)
    (model / CONFIG_NAME).write_text(pbtxt_from_config(config), encoding="utf-8")
    if task_named(manifest.task).answers == "label" and manifest.details.get("labels"):
        (model / LABELS_NAME).write_text("\n".join(manifest.details["labels"]) + "\n", encoding="utf-8")
    if by_triton is None:
        body = task_named(manifest.task).body
        (version / "model.py").write_text(_MODEL_PY.format(body=body, path=body.replace(".", "/")), encoding="utf-8")
        for name in manifest.files:
            shutil.copyfile(folder / name, version / name)
    manifest.write(version)
    if engines is not None:
        _write_engines(folder, engines if by_triton is None else replace(engines, engines=(by_triton,)), version)


def _write_engines(folder: Path, engines: EngineManifest, version: Path) -> None:
    for engine in engines.engines:
        shutil.copyfile(folder / engine.file, version / engine.file)
    engines.write(version)
