"""As much of TensorRT's Python API as running an engine takes, with its types.

The package has no types of its own. tests/serving/runtime/tensorrt/test_api.py holds each method to NVIDIA's bindings.
"""

from __future__ import annotations

from typing import Any, Protocol


class CudaEngine(Protocol):
    """``ICudaEngine``."""

    num_io_tensors: int
    num_optimization_profiles: int
    device_memory_size_v2: int

    def get_tensor_name(self, index: int) -> str:
        """The name of an input or output."""

    def get_tensor_mode(self, name: str) -> Any:
        """Whether a tensor is an input or an output."""

    def get_tensor_dtype(self, name: str) -> Any:
        """Its element type."""

    def get_tensor_shape(self, name: str) -> Any:
        """Its axes, −1 for one that varies."""

    def get_tensor_location(self, name: str) -> Any:
        """Whether its memory is the device's or the host's."""

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Any]:
        """The smallest, usual and largest shape of an input."""

    def get_aliased_input_tensor(self, name: str) -> str | None:
        """The input that shares its memory with an output, if one does."""

    def create_execution_context(self, strategy: Any) -> ExecutionContext:
        """What runs the engine, for one profile at a time."""


class ExecutionContext(Protocol):
    """``IExecutionContext``."""

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        """Choose a profile."""

    def set_device_memory(self, memory: int, size: int) -> None:
        """Lend memory for what lies between inputs and outputs."""

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        """State the shape of an input."""

    def get_tensor_shape(self, name: str) -> Any:
        """The shape of an output, once those of the inputs are stated."""

    def set_tensor_address(self, name: str, memory: int) -> bool:
        """State where a tensor lies."""

    def set_input_consumed_event(self, event: int) -> bool:
        """State an event that is recorded when the inputs may be written again."""

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Queue a run."""


BINDINGS = {CudaEngine: "ICudaEngine", ExecutionContext: "IExecutionContext"}
"""Protocol → the class of the bindings."""
