"""A checkpoint folder: ``config.json``, ``model.safetensors``, and the files that the task needs beside them."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from attendant.config import config_from_json, config_to_json
from attendant.errors import ArtefactError, ConfigError
from attendant.names import require_plain_name
from attendant.records import read_json
from attendant.tensor_names import PIXELS
from models.checkpoints.blank import blank, fill
from models.checkpoints.file_names import COMPANIONS, CONFIG_NAME, WEIGHTS_NAME
from models.checkpoints.fitting import require_bounded_header, require_fitting
from models.checkpoints.integers import LEVELS, PARTS, SCALE, Integers, logical_shapes, read_integers
from models.checkpoints.place import is_hugging_face
from models.families.family import Family
from models.registry import family_named
from models.task_graph import TaskGraph
from models.tasks.from_bytes import from_bytes

Weights = Literal["read", "mapped", "absent"]
"""In memory; in their file, whose pages the kernel reads when they are used, and forgets when it needs the memory, and
which must not be written to as long as the model lives; or nowhere, so that it takes no memory, and cannot run."""
_BACKENDS: dict[Weights, Literal["pread", "mmap"]] = {"read": "pread", "mapped": "mmap", "absent": "pread"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model with all that is known about it.

    Attributes:
        name: its name everywhere: folder, manifest, Triton.
        family: its architecture.
        model: the module, in evaluation mode, float32.
        details: what serving needs to know: labels, preprocessing.
        example: one request and its right answer.
        folder: where it was read from; none for a preset with random weights.
    """

    name: str
    family: Family
    model: nn.Module
    details: dict[str, Any] = field(default_factory=dict)
    example: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    def __post_init__(self) -> None:
        require_plain_name(self.name)

    @property
    def config(self) -> Any:
        return self.model.config

    def graphs(self, explain: bool = False, uint8: bool = False, prefill: bool = False) -> tuple[TaskGraph, ...]:
        """The graphs of its task, in the order in which a request passes them.

        Args:
            explain: whether those are added that show what it attends to.
            uint8: whether pixels are bytes, which the graphs prepare.
            prefill: whether one is added that reads prompts alone.

        Raises:
            ConfigError: there is nothing to show, no image to prepare, or no prompt to read.
        """
        builder = self.family.graph_builder
        every = builder.build(self.model)
        if explain:
            every = (*every, *builder.explained(self.model))
        if prefill:
            every = (*every, builder.prefill(self.model))
        if not uint8:
            return every
        if every[0].signature.inputs[0].name != PIXELS:
            raise ConfigError("a model of images", self.family.task.name, "leave --uint8 out")
        return tuple(from_bytes(graph, self.details.get("preprocessing")) for graph in every)

    def serving_details(self) -> dict[str, Any]:
        """What the server must know beyond the graphs: token ids, lengths, labels, preprocessing."""
        return {**self.details, **self.family.graph_builder.details(self.config)}

    def companions(self) -> tuple[Path, ...]:
        """The files beside the weights that later stages need."""
        return tuple(self.folder / name for name in COMPANIONS if (self.folder / name).is_file()) if self.folder else ()


def save_checkpoint(checkpoint: Checkpoint, folder: Path, integers: Mapping[str, Integers] | None = None) -> None:
    """Write weights and configuration; companions are written by whoever makes them.

    Args:
        checkpoint: what to write.
        folder: where to.
        integers: name → what is written in the place of the parameter of that name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = checkpoint.model.state_dict()
    for name, one in (integers or {}).items():
        del tensors[name]
        tensors |= one.tensors(name)
    save_file(tensors, folder / WEIGHTS_NAME)
    (folder / WEIGHTS_NAME).chmod(0o644)  # the library writes for its own user alone; a server may be another
    write_config(checkpoint, folder)


def write_config(checkpoint: Checkpoint, folder: Path) -> None:
    """Write, or write anew, what is known of a checkpoint beside its weights."""
    value = {
        "name": checkpoint.name,
        "family": checkpoint.family.name,
        "config": config_to_json(checkpoint.config),
        "details": checkpoint.details,
        "example": checkpoint.example,
    }
    (folder / CONFIG_NAME).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def load_checkpoint(folder: Path, weights: Weights = "read") -> Checkpoint:
    """Read a checkpoint folder.

    Args:
        folder: what to read.
        weights: where the model has them.

    Raises:
        ArtefactError: a file is missing or damaged, or the weights are not this configuration's.
        ConfigError: the configuration is rejected, or is of a larger model than the weights.
        UnknownNameError: the family is unknown.
    """
    path = folder / CONFIG_NAME
    try:
        value: dict[str, Any] = read_json(path)
    except (OSError, ValueError) as error:
        raise ArtefactError(
            f"a checkpoint's configuration at {path}", str(error), "name a checkpoint folder"
        ) from error
    parts = ("name", "family", "config", "details", "example")
    missing = [part for part in parts if not isinstance(value, dict) or part not in value]
    if missing and is_hugging_face(folder):
        remedy = f"import it: attendant models import {folder} --out NEW_FOLDER"
        raise ArtefactError(f"a checkpoint of ours at {folder}", "a Hugging Face folder", remedy)
    if missing:
        raise ArtefactError(f"a complete configuration at {path}", f"no {missing}", "write the checkpoint again")
    family = family_named(value["family"])
    config = config_from_json(family.config, value["config"])
    build = partial(family.build, config)
    require_fitting(build, config, _read_shapes(folder / WEIGHTS_NAME))
    model = blank(build)
    _load_weights(model, folder / WEIGHTS_NAME, weights)
    return Checkpoint(
        name=value["name"],
        family=family,
        model=model.eval().requires_grad_(False),
        details=value["details"],
        example=value["example"],
        folder=folder,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIntegers:
    """A parameter that a checkpoint folder holds in integers.

    Attributes:
        kind: equal for parameters that can be put beside each other: what parts there are, their types, the blocks.
        read: it.
    """

    kind: tuple[object, ...]
    read: Callable[[], Integers]


def stored_integers(folder: Path) -> dict[str, StoredIntegers]:
    """What a checkpoint folder holds in integers, by the names of parameters.

    Raises:
        ArtefactError: the weights are missing or damaged.
    """
    path, found = folder / WEIGHTS_NAME, {}
    with _opened(path, "mapped") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        for name in [one.removesuffix(LEVELS) for one in slices if one.endswith(LEVELS)]:
            parts = [part for part in PARTS if f"{name}{part}" in slices]
            kind = (*parts, slices[f"{name}{LEVELS}"].get_dtype(), slices[f"{name}{SCALE}"].get_shape()[1])
            found[name] = StoredIntegers(kind=kind, read=partial(_read_one, path, name))
    return found


def _read_one(path: Path, name: str) -> Integers:
    with _opened(path, "mapped") as file:
        found = read_integers(name, set(file.keys()), file.get_tensor)
    assert found is not None
    return found


def _read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    with _opened(path, "mapped") as file:
        return _shapes_in(file)


def _shapes_in(file: Any) -> dict[str, tuple[int, ...]]:
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    shapes = {name: tuple(one.get_shape()) for name, one in slices.items()}
    return logical_shapes(shapes, {name: one.get_dtype() for name, one in slices.items()})


@contextmanager
def _opened(path: Path, weights: Weights) -> Iterator[Any]:
    try:
        require_bounded_header(path)
        with safe_open(path, framework="pt", backend=_BACKENDS[weights]) as file:
            yield file
    except (OSError, SafetensorError) as error:
        remedy = "copy the file again, or train it with `attendant models train <name>`"
        raise ArtefactError(f"a whole safetensors file at {path}", str(error), remedy) from error


def _load_weights(model: nn.Module, path: Path, weights: Weights) -> None:
    with _opened(path, weights) as file:
        shapes, names = _shapes_in(file), set(file.keys())
        wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        if wanted != shapes:
            different = sorted(name for name in wanted.keys() | shapes.keys() if wanted.get(name) != shapes.get(name))
            raise ArtefactError(
                f"the tensors of the configuration in {path}",
                f"{len(different)} that differ in name or shape, first {different[:3]}",
                "pair the weights with their own config.json",
            )
        if weights != "absent":
            fill(model, ((name, _read_tensor(file, names, name)) for name in shapes))


def _read_tensor(file: Any, names: set[str], name: str) -> Tensor:
    integers = read_integers(name, names, file.get_tensor)
    if integers is not None:
        return integers.dequantise()
    tensor: Tensor = file.get_tensor(name)
    return tensor.float() if tensor.is_floating_point() else tensor
