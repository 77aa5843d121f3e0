"""Pair every tensor of an imported folder with one of ours; none may be left over on either side."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attendant.errors import ArtefactError
from attendant.progress import Advance
from models.checkpoints.blank import fill
from models.checkpoints.importers.architecture import Architecture, Origin, Table, origin_of
from models.checkpoints.importers.reader import TensorSource
from models.checkpoints.integers import Integers

_REMEDY = "pair the weights with their own config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Which tensors become which.

    Attributes:
        origins: our name → the names of tensors in the files, of which the first is read and the others are equal to
            it; none where zeros stand in.
        ignored: names in the files that the model does not need.
    """

    origins: Mapping[str, tuple[Origin, tuple[str, ...]]]
    ignored: tuple[str, ...]


def canonical_names(architecture: Architecture, tensors: TensorSource) -> dict[str, str]:
    """The names in the files by the names without prefix.

    Raises:
        ArtefactError: two tensors are the same one.
    """
    names: dict[str, str] = {}
    for name in tensors.shapes:
        other = names.setdefault(architecture.canonical(name), name)
        if other != name:
            raise ArtefactError("every tensor once", f"{other} and {name}", _REMEDY)
    return names


def pair(
    module: nn.Module,
    table: Table,
    architecture: Architecture,
    names: Mapping[str, str],
    zeros: Collection[str] = (),
) -> Pairing:
    """Find a place for every tensor.

    Args:
        module: ours, with or without values.
        table: its modules and theirs.
        architecture: what may be ignored.
        names: as :func:`canonical_names` gives them.
        zeros: of the tensors in the files, what may be ignored as well.

    Raises:
        ArtefactError: a tensor is missing, or one has no place; the message names them.
    """
    wanted = {ours: origin_of(ours, table) for ours in module.state_dict()}
    found = {
        ours: tuple(names[one] for one in origin.names if one in names)
        or tuple(names[one] for one in origin.fallback if one in names)
        for ours, origin in wanted.items()
    }
    missing = [origin.names[0] for ours, origin in wanted.items() if not found[ours] and not origin.optional]
    if missing:
        raise ArtefactError("every tensor of the model in the files", f"no {_name_some(missing)}", _REMEDY)
    used = {name for some in found.values() for name in some}
    ignored = tuple(
        name for one, name in names.items() if name not in used and (name in zeros or architecture.is_ignored(one))
    )
    left = sorted(set(names.values()) - used - set(ignored))
    if left:
        raise ArtefactError("only tensors that the model has", _name_some(left), _REMEDY)
    return Pairing(origins={ours: (origin, found[ours]) for ours, origin in wanted.items()}, ignored=ignored)


def fill_from(module: nn.Module, pairing: Pairing, tensors: TensorSource, advance: Advance) -> dict[str, Integers]:
    """Read, change and place one tensor after another, in the types of the files.

    Returns:
        Our name → the same in integers, of weights of linear layers that the files hold so.

    Raises:
        ArtefactError: a shape is not the configuration's, or tensors that should be one differ, or a number is none.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}

    linear = {f"{name}.weight" for name, part in module.named_modules() if isinstance(part, nn.Linear)}
    found: dict[str, Integers] = {}

    def read_all() -> Iterator[tuple[str, Tensor]]:
        for ours, (origin, theirs) in pairing.origins.items():
            yield ours, _read_tensor(tensors, origin, theirs, shapes[ours])
            integers = tensors.integers(theirs[0], origin.change) if ours in linear and theirs else None
            if integers is not None:
                found[ours] = integers
            advance(ours)

    fill(module, read_all())
    return found


def _read_tensor(tensors: TensorSource, origin: Origin, names: tuple[str, ...], shape: tuple[int, ...]) -> Tensor:
    if not names:
        return torch.zeros(shape)
    stored = tensors.read(names[0])
    for other in names[1:]:
        if not torch.equal(stored, tensors.read(other)):
            raise ArtefactError(
                f"the same values in {names[0]} and {other}, which the configuration ties",
                "different ones",
                "if they do differ, set tie_word_embeddings to false in config.json",
            )
    if not torch.isfinite(stored).all():
        remedy = "the checkpoint itself is damaged: fetch or train it again"
        raise ArtefactError(f"finite numbers in {names[0]} of the checkpoint", "NaN or an infinite one", remedy)
    try:
        tensor = origin.change(stored)
    except (RuntimeError, IndexError):  # of a rank that the change is not made for
        tensor = None
    if tensor is None or tuple(tensor.shape) != shape:
        found = f"{tuple(stored.shape)} in the file"
        raise ArtefactError(f"{names[0]} of a shape that becomes {shape}", found, _REMEDY)
    if tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)  # a part of a larger tensor keeps all of it in memory


def _name_some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
