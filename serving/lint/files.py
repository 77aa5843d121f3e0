"""Rules on files: what a configuration names is there."""

from __future__ import annotations

from collections.abc import Iterator

from serving.lint.backends import ENSEMBLE
from serving.lint.model import Model
from serving.lint.rule import Finding, Rule
from serving.lint.sources import LIFECYCLE, MEASURED, REFUSED


def _versions(model: Model) -> Iterator[Finding]:
    if not model.versions:
        yield Finding(where="1/", found="no folder of any version")
        return
    for version in model.served:
        if version not in model.versions:
            yield Finding(where="version_policy", found=f"no folder {version}/; there are {model.versions}")


def _files(model: Model) -> Iterator[Finding]:
    if model.backend == ENSEMBLE:
        return
    for version in model.served:
        folder = model.folder / str(version)
        present = {path.name for path in folder.iterdir()} if folder.is_dir() else None
        if present is None:
            continue
        for names in _wanted(model):
            if not present.intersection(names):
                yield Finding(where=f"{version}/{names[0]}", found="no file")
        if not _wanted(model) and not present:
            yield Finding(where=f"{version}/", found="an empty folder")


def _wanted(model: Model) -> list[tuple[str, ...]]:
    config, known = model.config, model.known_backend
    named = (config.default_model_filename,) if config.default_model_filename else known.files if known else ()
    return [names for names in (named, *((name,) for name in config.cc_model_filenames.values())) if names]


def _labels(model: Model) -> Iterator[Finding]:
    for tensor in model.config.output:
        if tensor.label_filename and not (model.folder / tensor.label_filename).is_file():
            yield Finding(where=f"output {tensor.name!r}", found=f"no file {tensor.label_filename}")


FILE_RULES: tuple[Rule[Model], ...] = (
    Rule(
        name="version",
        severity="error",
        statement="there is a folder for every version that is to be served, named by its number",
        consequence="that version is not served; without any, the server refuses the model",
        source=f"{LIFECYCLE}: VersionsToLoad",
        remedy="add the folder (an ensemble's is empty); 01 and v1 are no versions",
        find=_versions,
    ),
    Rule(
        name="model-file",
        severity="error",
        statement="the file that the backend opens is in every version's folder",
        consequence=f"{REFUSED}; without model.py the Python backend neither loads nor fails, and the server is never "
        "ready, nor does it end",
        source=f"{MEASURED} for 90 s; core, src/model_config_utils.cc: AutoCompleteBackendFields",
        remedy="put it there, or name it by default_model_filename",
        find=_files,
    ),
    Rule(
        name="labels",
        severity="error",
        statement="the file of an output's labels is there",
        consequence=REFUSED,
        source="core, src/model.cc: LabelProvider",
        remedy="write one label a line beside config.pbtxt, or leave label_filename out",
        find=_labels,
    ),
)
