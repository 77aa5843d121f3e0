"""Tensors ↔ the messages of Triton's protocol over gRPC, made once and sent often."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor, triton_to_np_dtype

from attendant.tensor_names import CANCEL_KEY
from clients.tensors import set_parameters

Array = NDArray[Any]
ID_TAG = bytes([3 << 3 | 2])  # field 3 of ModelInferRequest, a string
Place = tuple[str, int, int]
"""Where a tensor lies in shared memory: region, offset, bytes."""


def create_message(
    model: str,
    inputs: Mapping[str, Array],
    outputs: Sequence[str] = (),
    parameters: Mapping[str, Any] | None = None,
    places: Mapping[str, Place] | None = None,
) -> Any:
    """A ``ModelInferRequest``.

    Args:
        model: its name.
        inputs: name → tensor.
        outputs: the names of those that are requested; all if there are none.
        parameters: of the request.
        places: of the inputs that lie in shared memory.

    Raises:
        InputError: a parameter is no text, number or truth value.
    """
    message = service_pb2.ModelInferRequest(model_name=model)
    for name, array in inputs.items():
        tensor = message.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape)
        if places and name in places:
            region, offset, size = places[name]
            set_parameters(tensor, {"shared_memory_region": region, "shared_memory_byte_size": size})
            set_parameters(tensor, {"shared_memory_offset": offset} if offset else {})
        else:
            message.raw_input_contents.append(tensor_bytes(array))
    for name in outputs:
        message.outputs.add(name=name)
    set_parameters(message, parameters or {})
    return message


def with_id(message: bytes, request_id: str) -> bytes:
    """A serialised request without an id, given one: fields of protobuf may come in any order."""
    text = request_id.encode()
    return message + ID_TAG + bytes([len(text)]) + text


def with_cancel_key(message: bytes, key: str) -> bytes:
    """A serialised request, given the secret that cancels it: of protobuf's maps, too, the parts are merged."""
    part = service_pb2.ModelInferRequest()
    part.parameters[CANCEL_KEY].string_param = key
    return message + bytes(part.SerializeToString())


def read_arrays(response: Any) -> dict[str, Array]:
    """The tensors of a ``ModelInferResponse``."""
    return {
        output.name: read_array(output.datatype, output.shape, raw)
        for output, raw in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def read_array(datatype: str, shape: Sequence[int], raw: bytes) -> Array:
    """A tensor of its bytes, as both protocols have them."""
    if datatype == "BYTES":
        return np.array(split_texts(raw), dtype=object).reshape(shape)
    return np.frombuffer(raw, triton_to_np_dtype(datatype)).reshape(shape)


def split_texts(raw: bytes) -> list[bytes]:
    """The texts of a tensor, each behind its length in four bytes."""
    texts, at = [], 0
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        texts.append(raw[at + 4 : end])
        at = end
    return texts


def tensor_bytes(array: Array) -> bytes:
    """A tensor as both protocols have it."""
    if array.dtype != np.object_:
        return np.ascontiguousarray(array).tobytes()
    serialised = serialize_byte_tensor(array)
    return bytes(serialised.item()) if serialised.size else b""
