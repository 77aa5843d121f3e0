"""What a workload's request says beside its question: options of decoding, and which outputs are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import tensors_of
from attendant.tasks import TASKS
from attendant.tensor_names import STREAM
from clients.load.questions import WRITING_TASKS, Question
from clients.load.scenario import Workload
from clients.served_model import ServedModel

Array = NDArray[Any]


def decoding_of(workload: Workload, question: Question) -> SamplingParams:
    """How a question's answer is decoded: as the workload says, else as the answer that is known was."""
    if workload.decoding is not None:
        return workload.decoding
    return SamplingParams(max_tokens=question.max_tokens)


def inputs_of(
    workload: Workload, model: ServedModel, question: Question, decoding: SamplingParams | None = None
) -> dict[str, Array]:
    """A question's tensors, with those of its decoding where the model writes."""
    if model.task not in WRITING_TASKS:
        return dict(question.inputs)
    told = decoding or decoding_of(workload, question)
    return {**question.inputs, **tensors_of(told), STREAM: np.array([[workload.stream]])}


def wanted_outputs(workload: Workload, model: ServedModel) -> tuple[str, ...]:
    """The outputs that a request names; none, which is all, where nothing is known of them."""
    return workload.outputs or (TASKS[model.task].outputs if model.task in TASKS else ())
