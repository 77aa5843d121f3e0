"""Sampling parameters and a subject → the tensors of a request."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors, tensors_of
from attendant.tensor_names import PIXELS, STREAM

Array = NDArray[Any]


def request_tensors(subject: Any, options: SamplingParams, stream: bool) -> dict[str, Array]:
    """What travels: name → array with a batch of one.

    Args:
        subject: a text, token ids or an image.
        options: of the request; those that have their defaults do not travel.
        stream: whether it is answered as tokens come.
    """
    asked = (
        prompt_tensors(subject) if isinstance(subject, str | list) else {PIXELS: np.ascontiguousarray(subject)[None]}
    )
    return {**asked, **tensors_of(options), STREAM: np.array([[stream]])}
