"""What a name means that a user types: a folder, a file of their own, a shipped checkpoint, or else a preset."""

import re
from pathlib import Path

from attendant.errors import ArtefactError, ConfigError
from attendant.records import read_json
from models.checkpoints.file_names import CONFIG_NAME

PRETRAINED = Path(__file__).parent.parent / "pretrained"
OWN_SUFFIX, PROGRAM_SUFFIX, GGUF_SUFFIX = ".py", ".pt2", ".gguf"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def shipped_names() -> list[str]:
    """The checkpoints that come with this repository."""
    return sorted(folder.name for folder in PRETRAINED.iterdir() if (folder / CONFIG_NAME).is_file())


def place_of(name: str) -> Path | None:
    """The folder, Python file, exported program or GGUF file that a name stands for; none where it is a preset's.

    Raises:
        ArtefactError: it names a pipe, which would be waited for, or a device, which may never end.
    """
    path = Path(name)
    try:
        if path.is_dir():
            return path
        if path.exists() and name.endswith((OWN_SUFFIX, PROGRAM_SUFFIX, GGUF_SUFFIX)):
            if not path.is_file():
                raise ArtefactError(f"a file at {name}", "a pipe, a socket or a device", "copy what it gives to a file")
            return path
    except OSError:  # longer than any path can be
        pass
    return PRETRAINED / name if name in shipped_names() else None


def gguf_in(place: Path) -> Path | None:
    """The GGUF file that a path is, or the one of a folder without safetensors; none where it is something else.

    Raises:
        ConfigError: the folder has several.
    """
    if place.is_file():
        return place if place.suffix == GGUF_SUFFIX else None
    if not place.is_dir() or any(place.glob("*.safetensors")):
        return None
    found = sorted(place.glob(f"*{GGUF_SUFFIX}"))
    if len(found) > 1:
        raise ConfigError(f"one GGUF file in {place}", f"{len(found)}, first {found[0].name}", "name one of them")
    return found[0] if found else None


def is_hugging_face(folder: Path) -> bool:
    """Whether a path is another library's checkpoint, Hugging Face's, timm's or a GGUF file, and no one of ours."""
    if gguf_in(folder) is not None:
        return True
    try:
        values = read_json(folder / CONFIG_NAME)
    except (OSError, ValueError):
        return False
    named = isinstance(values, dict) and not {"model_type", "architectures", "architecture"}.isdisjoint(values)
    return named and "family" not in values


def remedy_for(name: str) -> str:
    """What to do about a name that stands for nothing."""
    usual = "name one of `attendant models list`, a checkpoint's folder, or a .py or .pt2 file with a model"
    if not _HUB_ID.fullmatch(name):
        return usual
    return f"if it is a model of Hugging Face's hub, fetch it first: hf download {name} --local-dir {Path(name).name}"
