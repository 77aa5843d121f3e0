"""Arrays ↔ messages of Triton's gRPC; large ones in a thread, as their copies would hold the event loop."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferResult, service_pb2
from tritonclient.grpc.aio import InferInput
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from attendant.errors import InputError

Array = NDArray[Any]
FEW_BYTES = 1 << 16
"""So much is copied at once: a thread would take longer."""
_RAW_KEY = bytes([service_pb2.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER << 3 | 2])


async def create_message(
    model: str, inputs: Mapping[str, Array], outputs: Sequence[str], parameters: Mapping[str, Any], request_id: str
) -> bytes:
    """A serialised ``ModelInferRequest``.

    Args:
        model: its name.
        inputs: name → array.
        outputs: the names of those to return; all of them if there are none.
        parameters: of the request.
        request_id: of the request; empty for none.

    Raises:
        InputError: a parameter is no text, number or truth value.
    """
    message = service_pb2.ModelInferRequest(model_name=model, id=request_id)
    for name, array in inputs.items():
        message.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape)
    for name in outputs:
        message.outputs.add(name=name)
    set_parameters(message, parameters)
    head, arrays = message.SerializeToString(), list(inputs.values())
    if sum(array.nbytes for array in arrays) <= FEW_BYTES:
        return _join(head, arrays)
    return await asyncio.to_thread(_join, head, arrays)


async def read_response(response: Any) -> dict[str, Array]:
    """The arrays of a ``ModelInferResponse`` by their names."""
    result = InferResult(response)
    is_small = response.ByteSize() <= FEW_BYTES
    return read_arrays(result) if is_small else await asyncio.to_thread(read_arrays, result)


def create_tensor(name: str, array: Array) -> Any:
    tensor = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(np.ascontiguousarray(array))
    return tensor


def read_arrays(result: Any) -> dict[str, Array]:
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}


def set_parameters(message: Any, parameters: Mapping[str, Any]) -> None:
    """Fill the parameters of a request or a tensor.

    Raises:
        InputError: one is no text, number or truth value.
    """
    for name, value in parameters.items():
        for kind, field in ((bool, "bool_param"), (int, "int64_param"), (float, "double_param"), (str, "string_param")):
            if isinstance(value, kind):
                setattr(message.parameters[name], field, value)
                break
        else:
            raise InputError(f"the parameter {name!r} as a text, number or truth value", repr(value), "correct it")


def _join(head: bytes, arrays: Sequence[Array]) -> bytes:
    # Messages of protobuf that stand behind each other are one. Its own writer copies a tensor four times, on the event
    # loop; this does so once.
    parts: list[Any] = [head]
    for array in arrays:
        content = _bytes_of(array)
        parts += [_RAW_KEY, _varint(len(content)), content]
    return b"".join(parts)


def _bytes_of(array: Array) -> Any:
    if array.dtype == np.object_:
        serialised = serialize_byte_tensor(array)
        return serialised.item() if serialised.size else b""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _varint(number: int) -> bytes:
    groups = [number >> shift & 0x7F for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])
