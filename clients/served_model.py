"""What a server says of one model: enough to send it requests with nothing but an address."""

import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import triton_to_np_dtype

from attendant.errors import UnknownNameError
from attendant.tasks import TASKS


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
        """Read Triton's ``ModelConfig`` message."""
        return cls(
            name=name,
            decoupled=config.model_transaction_policy.decoupled,
            max_batch=config.max_batch_size,
            inputs={tensor.name: tuple(tensor.dims) for tensor in config.input},
            outputs={tensor.name: tuple(tensor.dims) for tensor in config.output},
            dtypes={tensor.name: _numpy_name(tensor.data_type) for tensor in config.input},
            instances=sum(group.count for group in config.instance_group),
            parameters={key: _parse_value(value.string_value) for key, value in config.parameters.items()},
        )

    @property
    def task(self) -> str:
        """What the model is for; empty for a model that Attendant did not lay out."""
        return str(self.parameters.get("task", ""))

    @property
    def says_health(self) -> bool:
        """Whether it tells how its engine is doing: one process of ours has every request of the model."""
        return self.decoupled and self.task in TASKS and self.instances == 1

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
    return np.dtype(triton_to_np_dtype("BYTES" if name == "STRING" else name)).name


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
