"""The tensors of a Hugging Face folder: one safetensors file or several, read one tensor at a time, never pickle.

Source: the safetensors format, https://huggingface.co/docs/safetensors; a sharded folder's ``weight_map``.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attendant.errors import ArtefactError
from attendant.records import read_json
from models.checkpoints.fitting import require_bounded_header
from models.checkpoints.importers.architecture import Change
from models.checkpoints.integers import Integers

SINGLE_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class TensorSource(Protocol):
    """Named tensors, however they are stored."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of every tensor, by name."""

    @property
    def zeros(self) -> Collection[str]:
        """Biases that are nothing but 0, and that a model without biases does not need."""

    def read(self, name: str) -> Tensor:
        """One tensor, of a floating-point type."""

    def integers(self, name: str, change: Change) -> Integers | None:
        """What a change makes of a matrix that is stored in integers; none of other tensors."""


class Tensors:
    """What lies in the files of one folder.

    Attributes:
        shapes: of every tensor, by its name in the files.
        files: the name of the file that holds each tensor.
        zeros: none that are known.
    """

    zeros: Collection[str] = ()

    def __init__(self, files: Mapping[str, Any]) -> None:
        """Take the open files, by path."""
        self._file_of = {name: path for path, file in files.items() for name in file.keys()}  # noqa: SIM118
        self._files = files
        self.files = {name: Path(path).name for name, path in self._file_of.items()}
        self.shapes = {name: tuple(files[path].get_slice(name).get_shape()) for name, path in self._file_of.items()}

    def read(self, name: str) -> Tensor:
        """One tensor, in the type that it is stored in.

        Raises:
            ArtefactError: the file is damaged, or the type is none of floating-point numbers of 16 bits or more.
        """
        tensor = self.read_stored(name)
        if tensor.dtype not in _TYPES:
            supported = [str(kind).removeprefix("torch.") for kind in _TYPES]
            raise ArtefactError(f"{name} in a type of {supported}", str(tensor.dtype), "import unquantised weights")
        return tensor

    def read_stored(self, name: str) -> Tensor:
        """One tensor of any type.

        Raises:
            ArtefactError: the file is damaged.
        """
        path = self._file_of[name]
        try:
            tensor: Tensor = self._files[path].get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise _damaged_file(path, error) from error
        return tensor

    def integers(self, name: str, change: Change) -> Integers | None:
        """None: no matrix is in integers here."""
        return None


@contextmanager
def opened_tensors(folder: Path) -> Iterator[Tensors]:
    """The tensors of a folder, as long as the block lasts.

    Raises:
        ArtefactError: there is no safetensors file, or one is missing, damaged, or not what the index says.
    """
    with ExitStack() as stack:
        single = (folder / SINGLE_NAME).is_file()
        wanted = {} if single else _read_index(folder)
        files: dict[str, Any] = {}
        for name in sorted({SINGLE_NAME} if single else set(wanted.values())):
            try:
                require_bounded_header(folder / name)
                # Not memory-mapped, so that a tensor that has been dealt with leaves memory.
                file = stack.enter_context(safe_open(folder / name, framework="pt", backend="pread"))
            except (OSError, SafetensorError) as error:
                raise _damaged_file(str(folder / name), error) from error
            files[str(folder / name)] = file
        tensors = Tensors(files)
        if not single:
            different = sorted(
                name for name in wanted.keys() | tensors.files.keys() if wanted.get(name) != tensors.files.get(name)
            )
            if different:
                raise ArtefactError(
                    f"the tensors of {folder / INDEX_NAME} in the files that it names",
                    f"{len(different)} elsewhere or missing, first {different[:3]}",
                    "copy the files again",
                )
        yield tensors


def _read_index(folder: Path) -> dict[str, str]:
    path = folder / INDEX_NAME
    if not path.is_file():
        raise _nothing_to_read(folder)
    try:
        value = read_json(path)["weight_map"]
        names = {str(tensor): str(file) for tensor, file in value.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtefactError(f"an index with a weight_map at {path}", repr(error), "copy the file again") from error
    outside = sorted({name for name in names.values() if Path(name).name != name})
    if outside:
        raise ArtefactError(f"names of files beside {path}", str(outside[:3]), "correct the index")
    return names


def _damaged_file(path: str, error: Exception) -> ArtefactError:
    return ArtefactError(f"a whole safetensors file at {path}", str(error), "copy the file again")


def _nothing_to_read(folder: Path) -> ArtefactError:
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if not pickles:
        found = str(sorted(path.name for path in folder.iterdir())[:8])
        return ArtefactError(f"{SINGLE_NAME} or {INDEX_NAME} in {folder}", found, "name a folder with weights")
    return ArtefactError(
        f"{SINGLE_NAME} or {INDEX_NAME} in {folder}",
        f"{pickles[:3]}, which can run code when they are opened and are never read here",
        "where you trust them, convert them: load the folder with transformers and call save_pretrained(NEW_FOLDER)",
    )
