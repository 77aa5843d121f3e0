"""``reproduce.sh``: the command that makes an artefact again, and the proof that it is the same one."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from attendant.manifest import REPRODUCTION_NAME, Manifest
from export.artefact.fingerprint import ROOT, Option
from models.checkpoints.place import PRETRAINED, place_of

_SCRIPT = """#!/usr/bin/env bash
# Makes this artefact again and compares every file with what it was.
# To be run from the repository's root; its one argument, which may be left out, is the folder to write.
# Made by {versions}; fingerprint {fingerprint}.
set -euo pipefail

out="${{1:-$(mktemp -d)/artefact}}"
{command} --out "$out"
cd "$out"
sha256sum --check <<'HASHES'
{hashes}
HASHES
"""


def write_reproduction(folder: Path, manifest: Manifest, options: Mapping[str, Option]) -> None:
    """Write the script beside an artefact's other files.

    It is no file of the manifest: nothing that serves an artefact needs it.

    Args:
        folder: the artefact.
        manifest: its source, files, versions and fingerprint.
        options: flag of the command → value.
    """
    words = ["attendant", "export", manifest.form, _source(manifest.source), *_flags(options)]
    script = _SCRIPT.format(
        versions=", ".join(f"{package} {version}" for package, version in manifest.versions.items()),
        fingerprint=manifest.fingerprint[:16],
        command=shlex.join(words),
        hashes="\n".join(f"{sha}  {name}" for name, sha in manifest.files.items()),
    )
    path = folder / REPRODUCTION_NAME
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)


def _source(name: str) -> str:
    place = place_of(name)
    if place is None or place == PRETRAINED / name:
        return name
    path = place.resolve()
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _flags(options: Mapping[str, Option]) -> Iterator[str]:
    for name, value in options.items():
        if value is True:
            yield f"--{name}"
        elif value is not False and value is not None:
            yield from (f"--{name}", str(value))
