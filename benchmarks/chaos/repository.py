"""Changes of a model repository that a server meets: an artefact that is new, cut, or not what its manifest says."""

import os
import shutil
from pathlib import Path

COPY = "copied"
"""How the name of an artefact begins that is added."""


def copy_repository(source: Path, out: Path) -> Path:
    """A repository that may be changed."""
    shutil.copytree(source, out)
    return out


def change_repository(repository: Path, change: str, model: str) -> None:
    """Do one thing to a model's folder.

    Args:
        repository: that a server reads, or will.
        change: truncate (its first graph), manifest (cut in the middle), add (a copy under another name), or remove.
        model: its name.
    """
    folder = repository / model
    match change:
        case "truncate":
            graph = sorted((folder / "1").glob("*.onnx"))[0]
            os.truncate(graph, graph.stat().st_size // 2)
        case "manifest":
            path = folder / "1" / "manifest.json"
            os.truncate(path, path.stat().st_size // 2)
        case "add":
            name = f"{COPY}-{len(list(repository.glob(f'{COPY}-*')))}"
            shutil.copytree(folder, repository / name)
            config = repository / name / "config.pbtxt"
            config.write_text(config.read_text().replace(f'name: "{model}"', f'name: "{name}"'))
        case "remove":
            shutil.rmtree(folder)
        case _:
            raise ValueError(f"unknown change {change!r}")
