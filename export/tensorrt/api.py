"""As much of TensorRT's Python API as building an engine takes, with its types.

The package has no types of its own. tests/export/tensorrt/test_api.py holds each method to NVIDIA's bindings.
"""

from __future__ import annotations

from typing import Any, Protocol


class Builder(Protocol):
    """``Builder``."""

    def create_network(self, flags: int) -> Network: ...

    def create_builder_config(self) -> BuilderConfig: ...

    def create_optimization_profile(self) -> OptimizationProfile: ...

    def build_serialized_network(self, network: Network, config: BuilderConfig) -> HostMemory | None: ...


class Network(Protocol):
    """``INetworkDefinition``."""

    num_layers: int


class HostMemory(Protocol):
    """``IHostMemory``, a buffer of bytes."""

    nbytes: int

    def __buffer__(self, flags: int, /) -> memoryview: ...


class OptimizationProfile(Protocol):
    """``IOptimizationProfile``."""

    def set_shape(self, input: str, min: tuple[int, ...], opt: tuple[int, ...], max: tuple[int, ...]) -> None: ...  # noqa: A002


class TimingCache(Protocol):
    """``ITimingCache``."""

    def combine(self, input_cache: TimingCache, ignore_mismatch: bool) -> bool: ...

    def serialize(self) -> HostMemory: ...


class BuilderConfig(Protocol):
    """``IBuilderConfig``."""

    profiling_verbosity: Any
    progress_monitor: Any
    hardware_compatibility_level: Any

    def set_flag(self, flag: Any) -> None: ...

    def clear_flag(self, flag: Any) -> None: ...

    def set_preview_feature(self, feature: Any, enable: bool) -> None:
        """Ask for something that is not for everybody yet."""

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None: ...

    def add_optimization_profile(self, profile: OptimizationProfile) -> int:
        """Add a profile; its number, or −1 where it is no good."""

    def create_timing_cache(self, serialized_timing_cache: bytes) -> TimingCache:
        """A cache from bytes, none of which is an empty one."""

    def set_timing_cache(self, cache: TimingCache, ignore_mismatch: bool) -> bool: ...


class Parser(Protocol):
    """``OnnxParser``."""

    num_errors: int

    def parse_from_file(self, model: str) -> bool: ...

    def get_error(self, index: int) -> Any: ...


class BuiltEngine(Protocol):
    """``ICudaEngine``, as the builder's side asks it."""

    device_memory_size_v2: int
    num_io_tensors: int

    def get_engine_stat(self, stat: Any) -> int: ...

    def create_engine_inspector(self) -> Inspector: ...

    def create_execution_context(self, strategy: Any) -> Any: ...

    def serialize(self) -> HostMemory: ...


class Inspector(Protocol):
    """``EngineInspector``."""

    execution_context: Any

    def get_engine_information(self, format: Any) -> str: ...  # noqa: A002


BINDINGS = {
    Builder: "Builder",
    Network: "INetworkDefinition",
    HostMemory: "IHostMemory",
    OptimizationProfile: "IOptimizationProfile",
    TimingCache: "ITimingCache",
    BuilderConfig: "IBuilderConfig",
    Parser: "OnnxParser",
    BuiltEngine: "ICudaEngine",
    Inspector: "EngineInspector",
}
"""Protocol → the class of the bindings."""
