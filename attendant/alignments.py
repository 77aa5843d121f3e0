"""Alignments: for each token of an answer the weights of what it read.

Legend: T tokens, S positions that are read: of a source as many for each token, of a language model one more a token.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def join_alignments(parts: Sequence[Array]) -> Array | None:
    """Those of the parts of an answer ``[T, S]``, one below the other; narrower ones end in zeros. None of no parts.

    Raises:
        ValueError: their widths are neither equal nor one more for each token.
    """
    if not parts:
        return None
    widths = np.array([part.shape[1] for part in parts])
    begins = widths - np.cumsum([len(part) for part in parts])
    if len(set(widths)) > 1 and len(set(begins)) > 1:
        raise ValueError(f"alignments of one width, or of one more for each token; found {widths.tolist()[:10]}")
    width = int(widths.max())
    joined: Array = np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])
    return joined
