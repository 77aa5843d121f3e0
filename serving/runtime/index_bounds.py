"""Which integers a module may be fed: an index out of range is an error on a CPU, and the process's end on a GPU."""

from collections.abc import Mapping

from attendant.errors import InputError
from serving.runtime.base import Array


def require_indices(arrays: Mapping[str, Array], below: Mapping[str, int]) -> None:
    """Refuse indices that point outside of what they index.

    Args:
        arrays: input name → array, of those that are new in this run.
        below: of inputs that index a table, its length.

    Raises:
        InputError: a token is in no vocabulary, a position in no cache, or a scored position is not among the new ones.
    """
    limits = dict(below)
    if {"start", "self_mask", "token_ids"} <= arrays.keys():
        steps, attended = arrays["self_mask"].shape[2:]
        limits |= {"start": attended - steps + 1}
    if {"scored", "token_ids"} <= arrays.keys():
        limits |= {"scored": arrays["token_ids"].shape[1]}
    for name in limits.keys() & arrays.keys():
        least, most = int(arrays[name].min()), int(arrays[name].max())
        if least < 0 or most >= limits[name]:
            found = str(least if least < 0 else most)
            raise InputError(f"{name} from 0 to {limits[name] - 1}", found, "correct what is fed")
