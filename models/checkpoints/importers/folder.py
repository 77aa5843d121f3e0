"""The JSON files of a Hugging Face folder, and what is refused before anything else is read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attendant.errors import ArtefactError, ConfigError, OutputError
from attendant.records import read_json
from models.checkpoints.file_names import CHECKPOINT_FIELDS, CONFIG_NAME

_GENERATION_NAME = "generation_config.json"


def read_config(folder: Path) -> dict[str, Any]:
    """The fields of ``config.json``.

    Raises:
        ArtefactError: there is none, it is no JSON object, or it is a checkpoint of ours.
        ConfigError: the model is code in the folder.
    """
    values = read_object(folder / CONFIG_NAME)
    if set(values) >= CHECKPOINT_FIELDS:
        raise ArtefactError("a Hugging Face folder", f"a checkpoint of ours in {folder}", "it needs no import")
    if values.get("auto_map"):
        raise ConfigError(
            "a model of the library's own code",
            f"auto_map: {values['auto_map']!r}",
            "code in a folder is never run; if the library's own class computes the same, take auto_map out",
        )
    return values


def generation_values(folder: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """How answers are to be decoded: the fields of ``generation_config.json``, or of ``config.json`` without one.

    Where a configuration holds another for its decoder, that one says what it leaves open itself.
    """
    path = folder / _GENERATION_NAME
    if not path.is_file():
        decoder = config.get("decoder")
        own = {name: one for name, one in config.items() if one is not None}
        return {**decoder, **own} if isinstance(decoder, dict) else config
    values = read_object(path)
    # Some files leave the end to the model's configuration; without it no answer would ever end.
    return {
        "eos_token_id": config.get("eos_token_id"),
        **{name: one for name, one in values.items() if one is not None},
    }


def refuse_place(source: Path, out: Path) -> None:
    """Refuse to write over the folder that is read, or over another library's.

    Raises:
        OutputError: it is such a folder.
    """
    if out.resolve() == source.resolve():
        raise OutputError("a folder beside the one that is read", str(out), "choose another --out")
    if (out / CONFIG_NAME).is_file() and not set(read_object(out / CONFIG_NAME)) >= CHECKPOINT_FIELDS:
        raise OutputError(
            f"a new folder, or a checkpoint of ours, at {out}", "another library's", "choose another --out"
        )


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object in a file.

    Raises:
        ArtefactError: there is none.
    """
    try:
        value = read_json(path)
    except (OSError, ValueError) as error:
        raise ArtefactError(f"a JSON object at {path}", str(error), "name a whole Hugging Face folder") from error
    if not isinstance(value, dict):
        raise ArtefactError(f"a JSON object at {path}", type(value).__name__, "name a whole Hugging Face folder")
    return value
