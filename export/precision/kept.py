"""Which weights of a graph a checkpoint holds in integers, and which precisions keep them."""

from collections.abc import Callable, Mapping
from functools import partial

import ml_dtypes
import numpy as np

from export.passes.quantise.block_quantisers import Blocks
from export.passes.quantise.keep_integers import Kept, KeptMatrix
from models.checkpoints.integers import Integers
from models.checkpoints.store import Checkpoint, stored_integers


def kept_matrices(checkpoint: Checkpoint, parameters: Mapping[str, list[str]]) -> Kept:
    """The weights of a graph that are parameters of the checkpoint in integers.

    Args:
        checkpoint: of the graph.
        parameters: the name of a weight → the parameters that it was computed from.
    """
    stored = stored_integers(checkpoint.folder) if checkpoint.folder else {}
    return {
        weight: KeptMatrix(kind=stored[names[0]].kind, read=partial(_read, stored[names[0]].read))
        for weight, names in parameters.items()
        if len(names) == 1 and names[0] in stored
    }


def _read(read: Callable[[], Integers]) -> Blocks:
    integers = read()
    signed = integers.zero is None and integers.minimum is None
    kind = np.int8 if integers.bits == 8 else ml_dtypes.int4 if signed else ml_dtypes.uint4
    columns = {
        name: None if part is None else part.T.contiguous().numpy().astype(np.float32)
        for name, part in (("zero", integers.zero), ("minimum", integers.minimum))
    }
    levels = integers.levels.T.contiguous().numpy().astype(kind)
    return Blocks(levels=levels, scale=integers.scale.T.contiguous().numpy(), **columns)
