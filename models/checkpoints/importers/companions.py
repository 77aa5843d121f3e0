"""What travels with imported weights: the tokenizer of a model of texts; labels and preprocessing of one of images."""

from pathlib import Path
from typing import Any

from attendant.errors import ConfigError
from attendant.labels import label_fault
from attendant.no_tokenizer import NOTE as NO_TOKENIZER
from attendant.tasks import Task
from models.checkpoints.importers import timm
from models.checkpoints.importers.architecture import ReferenceModel
from models.checkpoints.importers.images import image_details
from models.checkpoints.importers.timm import is_timm
from models.checkpoints.importers.tokenizer import has_any_tokenizer, keep_tokenizer


def keep_companions(source: Path, staged: Path, task: Task, reference: ReferenceModel, config: Any) -> dict[str, Any]:
    """Copy what the task needs beside the weights.

    Args:
        source: the imported folder, or GGUF file.
        staged: where the imported checkpoint is written.
        task: of our family.
        reference: what is known of the folder.
        config: of our family.

    Returns:
        Details of the checkpoint.

    Raises:
        ArtefactError, ConfigError, MachineError: a companion is missing, damaged, or not supported.
    """
    try:
        details = _keep(source, staged, task, reference, config)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        expected, found = f"labels, preprocessing and tokenizer in {source}", f"{type(error).__name__}: {error}"
        raise ConfigError(expected, found[:200], "correct their files") from error
    if fault := label_fault(details.get("labels", [])):
        raise ConfigError(f"labels of one line each in {source}", fault, "correct config.json")
    return details


def _keep(source: Path, staged: Path, task: Task, reference: ReferenceModel, config: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if is_timm(reference.values):
        return timm.image_details(reference.values, config.pixel_shape)
    if task.reads == "pixels":
        details |= image_details(source, config.pixel_shape)
    if task.answers == "label":
        given = reference.fields.get("id2label") or {}
        try:
            labels = [str(given[str(index)]) for index in range(config.classes)] if given else []
        except KeyError as error:
            raise ConfigError(
                f"id2label of 0 to {config.classes - 1} in config.json", f"no {error}", "correct it"
            ) from error
        named = any(label != f"LABEL_{index}" for index, label in enumerate(labels))
        details |= {"labels": labels} if named else {}
    if "text" in (task.reads, task.answers):
        if task.name == "generate" and not (has_any_tokenizer(source) or reference.tokenizer):
            reference.notes.append(NO_TOKENIZER)
        else:
            details |= keep_tokenizer(source, staged, reference.tokenizer)
    return details
