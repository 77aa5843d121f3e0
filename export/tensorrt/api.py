"""As much of TensorRT's Python API as building an engine takes, with its types.

The package has no types of its own. tests/export/tensorrt/test_api.py holds each method to NVIDIA's bindings.
"""

from __future__ import annotations

from typing import Any, Protocol


class Builder(Protocol):
    """``Builder``."""

    def create_network(self, flags: int) -> Network:
        """An empty network."""

    def create_builder_config(self) -> BuilderConfig:
        """What is asked of a build."""

    def create_optimization_profile(self) -> OptimizationProfile:
        """An empty profile."""

    def build_serialized_network(self, network: Network, config: BuilderConfig) -> HostMemory | None:
        """Build."""


class Network(Protocol):
    """``INetworkDefinition``."""

    num_layers: int


class HostMemory(Protocol):
    """``IHostMemory``, a buffer of bytes."""

    nbytes: int

    def __buffer__(self, flags: int, /) -> memoryview:
        """The bytes."""


class OptimizationProfile(Protocol):
    """``IOptimizationProfile``."""

    def set_shape(self, input: str, min: tuple[int, ...], opt: tuple[int, ...], max: tuple[int, ...]) -> None:  # noqa: A002
        """The sizes of an input."""


class TimingCache(Protocol):
    """``ITimingCache``."""

    def combine(self, input_cache: TimingCache, ignore_mismatch: bool) -> bool:
        """Add what another one knows."""

    def serialize(self) -> HostMemory:
        """As bytes."""


class BuilderConfig(Protocol):
    """``IBuilderConfig``."""

    profiling_verbosity: Any
    progress_monitor: Any
    hardware_compatibility_level: Any

    def set_flag(self, flag: Any) -> None:
        """Ask for something."""

    def clear_flag(self, flag: Any) -> None:
        """Do not ask for it."""

    def set_preview_feature(self, feature: Any, enable: bool) -> None:
        """Ask for something that is not for everybody yet."""

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        """Limit memory."""

    def add_optimization_profile(self, profile: OptimizationProfile) -> int:
        """Add a profile; its number, or −1 where it is no good."""

    def create_timing_cache(self, serialized_timing_cache: bytes) -> TimingCache:
        """A cache from bytes, none of which is an empty one."""

    def set_timing_cache(self, cache: TimingCache, ignore_mismatch: bool) -> bool:
        """Use a cache."""


class Parser(Protocol):
    """``OnnxParser``."""

    num_errors: int

    def parse_from_file(self, model: str) -> bool:
        """Read a graph into the network."""

    def get_error(self, index: int) -> Any:
        """What is wrong with it."""


class BuiltEngine(Protocol):
    """``ICudaEngine``, as the builder's side asks it."""

    device_memory_size_v2: int
    num_io_tensors: int

    def get_engine_stat(self, stat: Any) -> int:
        """A number about the engine."""

    def create_engine_inspector(self) -> Inspector:
        """What tells of its layers."""

    def create_execution_context(self, strategy: Any) -> Any:
        """What runs it."""

    def serialize(self) -> HostMemory:
        """As bytes."""


class Inspector(Protocol):
    """``EngineInspector``."""

    execution_context: Any

    def get_engine_information(self, format: Any) -> str:  # noqa: A002
        """Every layer."""


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
