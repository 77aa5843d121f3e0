"""What a workload's request carries beside its input: sampling parameters, and which outputs are requested."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import tensors_of
from attendant.tasks import TASKS
from attendant.tensor_names import STREAM
from clients.load.request_inputs import GENERATIVE_TASKS, RequestInput
from clients.load.scenario import Workload
from clients.served_model import ServedModel


def sampling_params(workload: Workload, request_input: RequestInput) -> SamplingParams:
    """How a request's answer is decoded: as the workload says, else as the answer that is known was."""
    if workload.decoding is not None:
        return workload.decoding
    return SamplingParams(max_tokens=request_input.max_tokens)


def request_tensors(
    workload: Workload, model: ServedModel, request_input: RequestInput, params: SamplingParams | None = None
) -> dict[str, NDArray[Any]]:
    """A request's tensors, with its sampling parameters where the model is generative."""
    if model.task not in GENERATIVE_TASKS:
        return dict(request_input.tensors)
    params = params or sampling_params(workload, request_input)
    return {**request_input.tensors, **tensors_of(params), STREAM: np.array([[workload.stream]])}


def output_names(workload: Workload, model: ServedModel) -> tuple[str, ...]:
    """The outputs that a request names; none, which is all, where nothing is known of them."""
    return workload.outputs or (TASKS[model.task].outputs if model.task in TASKS else ())
