"""Request a custom model on a Triton server: tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attendant.errors import InputError
from clients.served_model import ServedModel
from clients.triton_client import Array, TritonClient

TASK = "predict"


class Predictor:
    """A served model of the task ``predict``."""

    def __init__(self, client: TritonClient, model: ServedModel) -> None:
        self._client = client
        self._model = model

    @classmethod
    async def find(cls, client: TritonClient, name: str | None = None) -> Predictor:
        """The model of that name, or the only one that the server has for the task.

        Raises:
            UnknownNameError: there is none, or a name is needed.
        """
        return cls(client, await client.model_for(TASK, name))

    @property
    def details(self) -> Mapping[str, Any]:
        """What the model's maker left for its clients: labels, units."""
        return self._model.parameters

    async def predict(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """One request.

        Args:
            inputs: input name → array or nested lists ``[B, …]``; numbers are converted to the model's types.

        Returns:
            Output name → array ``[B, …]``.

        Raises:
            InputError: an input is missing, unknown, or no array of numbers, or the server refused it.
            ServerError: it failed, or did not answer in time.
        """
        expected = self._model.inputs.keys()
        if inputs.keys() != expected:
            raise InputError(f"the inputs {sorted(expected)}", str(sorted(inputs)), "give each input once")
        arrays = {name: _convert(name, value, self._model.dtypes[name]) for name, value in inputs.items()}
        return await self._client.infer(self._model.name, arrays)


def _convert(name: str, value: Any, dtype: str) -> Array:
    try:
        given = np.asarray(value)
        array: Array = given.astype(dtype)
        if array.dtype.kind in "biu" and not np.array_equal(given, array):  # 1.5, or 300 in a byte
            raise ValueError(f"a number that is none of {dtype}")
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"rows of numbers of equal lengths for {name!r}", str(error), "correct the request") from error
    return array
