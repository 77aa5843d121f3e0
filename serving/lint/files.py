"""Rules on files: what a configuration names is there."""

from collections.abc import Iterator

from serving.lint.backends import ENSEMBLE
from serving.lint.model import Model
from serving.lint.rule import Finding, rule
from serving.lint.sources import LIFECYCLE, MEASURED, REFUSED


@rule(
    severity="error",
    statement="there is a folder for every version that is to be served, named by its number",
    consequence="that version is not served; without any, the server refuses the model",
    source=f"{LIFECYCLE}: VersionsToLoad",
    remedy="add the folder (an ensemble's is empty); 01 and v1 are no versions",
)
def version(model: Model) -> Iterator[Finding]:
    versions = model.versions
    if not versions:
        yield Finding(where="1/", found="no folder of any version")
        return
    for version in sorted(set(model.served) - set(versions)):
        yield Finding(where="version_policy", found=f"no folder {version}/; there are {versions}")


@rule(
    severity="error",
    statement="the file that the backend opens is in every version's folder",
    consequence=f"{REFUSED}; without model.py the Python backend neither loads nor fails, and the server is never "
    "ready, nor does it end",
    source=f"{MEASURED} for 90 s; core, src/model_config_utils.cc: AutoCompleteBackendFields",
    remedy="put it there, or name it by default_model_filename",
)
def model_file(model: Model) -> Iterator[Finding]:
    if model.backend == ENSEMBLE:
        return
    config, known = model.config, model.known_backend
    opened = (config.default_model_filename,) if config.default_model_filename else known.files if known else ()
    expected = [names for names in (opened, *((name,) for name in config.cc_model_filenames.values())) if names]
    for version in model.served:
        folder = model.folder / str(version)
        if not folder.is_dir():
            continue
        present = {path.name for path in folder.iterdir()}
        for names in expected:
            if not present.intersection(names):
                yield Finding(where=f"{version}/{names[0]}", found="no file")
        if not expected and not present:
            yield Finding(where=f"{version}/", found="an empty folder")
