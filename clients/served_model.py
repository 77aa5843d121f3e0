"""What a server says of one model: enough to send it requests with nothing but an address."""

import json
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import triton_to_np_dtype

from attendant.errors import UnknownNameError
from attendant.no_tokenizer import TOKEN_IDS_ONLY
from attendant.tasks import TASKS

_TYPES = {
    "task": str,
    "example": dict,
    "labels": list,
    "preprocessing": dict,
    "chat_template": str,
    "special_tokens": dict,
    "control_tokens": list,
    TOKEN_IDS_ONLY: bool,
}
_SIZES = {
    *("image_size", "max_length", "max_prompt_length", "max_num_seqs", "max_queue_size"),
    *("max_source_length", "max_target_length", "tool_calls_token_id"),
}
MOST_VALUES = 1 << 25
"""Of all inputs of one row: several times what models of published sizes take. Tensors of them are made here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One model of a server.

    Attributes:
        name: as in the repository.
        decoupled: whether a request gets a stream of responses.
        max_batch: most rows in one request; 0 for a model without a batch.
        inputs: input name → dimensions without the batch.
        outputs: output name → dimensions without the batch; −1 where they vary.
        dtypes: input name → element type, in NumPy's words.
        parameters: what the manifest left in the configuration: task, example, labels, preprocessing, lengths.
        instances: how many processes run it; 0 where the server says nothing of them.
    """

    name: str
    decoupled: bool
    max_batch: int
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    parameters: dict[str, Any]
    instances: int = 0

    @classmethod
    def from_config(cls, name: str, config: Any) -> Self:
        """Read Triton's ``ModelConfig`` message.

        Raises:
            ValueError: it names a data type that is none, or inputs of more than :data:`MOST_VALUES` values.
        """
        parameters = _read_parameters(config.parameters)
        inputs = {tensor.name: tuple(tensor.dims) for tensor in config.input}
        _require_bounded(inputs, parameters.get("image_size", 1))
        return cls(
            name=name,
            decoupled=config.model_transaction_policy.decoupled,
            max_batch=config.max_batch_size,
            inputs=inputs,
            outputs={tensor.name: tuple(tensor.dims) for tensor in config.output},
            dtypes={tensor.name: _numpy_name(tensor.data_type) for tensor in config.input},
            instances=sum(group.count * max(1, len(group.gpus)) for group in config.instance_group),
            parameters=parameters,
        )

    @property
    def task(self) -> str:
        """What the model is for; empty for a model that Attendant did not lay out."""
        return str(self.parameters.get("task", ""))

    @property
    def says_health(self) -> bool:
        """Whether it tells how its engine is doing: one process of ours has every request of the model."""
        return self.decoupled and self.task in TASKS and self.instances == 1

    @property
    def token_ids_only(self) -> bool:
        """Whether it has no tokenizer: prompts and answers are token ids."""
        return bool(self.parameters.get(TOKEN_IDS_ONLY, False))

    def is_for(self, task: str) -> bool:
        """Whether it is for a task; ``predict`` is asked in the place of one without a verb of its own."""
        return self.task == task or (task == "predict" and self.task in TASKS and not TASKS[self.task].verb)

    def require_task(self, task: str) -> Self:
        """The model itself, unless it is known to be for another task.

        Raises:
            UnknownNameError: it is.
        """
        if self.task and not self.is_for(task):
            raise UnknownNameError(
                f"a model that can {task}",
                f"{self.name!r}, which can {self.task}",
                "name another",
                message=f"model {self.name!r} can {self.task}; it cannot {task}; name another",
            )
        return self


def _numpy_name(kind: int) -> str:
    name = model_config_pb2.DataType.Name(kind).removeprefix("TYPE_")
    found = triton_to_np_dtype("BYTES" if name == "STRING" else name)
    if found is None:  # which NumPy takes for float64
        raise ValueError(f"a data type of Triton's; found {name}")
    return np.dtype(found).name


def _require_bounded(inputs: dict[str, tuple[int, ...]], varying: int) -> None:
    count = sum(prod(varying if size == -1 else abs(size) for size in shape) for shape in inputs.values())
    if count > MOST_VALUES:
        raise ValueError(f"inputs of at most {MOST_VALUES} values a row; found {count}")


def _read_parameters(parameters: Any) -> dict[str, Any]:
    # One of ours that is of another type is a stranger's, who means something else by it.
    read = {key: _parse_value(value.string_value) for key, value in parameters.items()}
    return {key: value for key, value in read.items() if _is_ours(key, value)}


def _is_ours(key: str, value: Any) -> bool:
    if key in _SIZES:
        return type(value) is int and value >= 0  # a bool is an int too
    is_typed = isinstance(value, _TYPES.get(key, object))
    return is_typed and (key != "control_tokens" or all(isinstance(token, str) for token in value))


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}, which is not JSON")
