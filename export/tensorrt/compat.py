"""TensorRT's builder, the one place that knows it: versions 10.16 and 11, which differ in what is left out.

What both have is all that is used: networks are strongly typed, so the precision is the graph's (11 knows no other,
10 is told). Left out because 11 has it not: ``BuilderFlag.FP16`` and its like, ``EXPLICIT_BATCH``, ``precision`` of
layers, ``device_memory_size`` without ``_v2``. The inspector's list of tensors, which 11 renamed, is not read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attendant.engine_manifest import Hardware, Profile
from attendant.errors import ExportError
from export.tensorrt.api import Builder, BuilderConfig, BuiltEngine, Parser, TimingCache
from export.tensorrt.build_progress import BuildProgress
from export.tensorrt.config import EngineConfig
from serving.runtime.tensorrt.library import fill_weights, tensorrt_log, tensorrt_module

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """What a build made.

    Attributes:
        plan: the engine's bytes.
        timings: from bytes that another build has kept to both builds' timings.
    """

    plan: bytes
    timings: Callable[[bytes], bytes]


def build_plan(
    path: Path,
    profiles: Sequence[Profile],
    config: EngineConfig,
    timings: bytes,
    account: BuildProgress,
    aliased_plugins: bool = False,
) -> EnginePlan:
    """Build the engine of an ONNX graph.

    Args:
        path: the graph; its weights lie beside it.
        profiles: its sizes.
        config: what is asked.
        timings: of earlier builds on such a GPU.
        account: is told how far it is.
        aliased_plugins: whether a plugin writes what it reads.

    Raises:
        MachineError: there is no TensorRT.
        ExportError: the parser or the builder refuses the graph.
        KeyboardInterrupt: the user has stopped it.
    """
    trt = tensorrt_module()
    builder: Builder = trt.Builder(tensorrt_log())
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser: Parser = trt.OnnxParser(network, tensorrt_log())
    if not parser.parse_from_file(str(path)):
        errors = [parser.get_error(index).desc() for index in range(parser.num_errors)]
        raise ExportError(
            f"a graph at {path} that TensorRT's parser reads", "; ".join(errors), "see docs/reference/targets.md"
        )
    settings, cache, monitor = _create_builder_config(trt, builder, profiles, config, timings, account)
    if aliased_plugins:
        settings.set_preview_feature(trt.PreviewFeature.ALIASED_PLUGIN_IO_10_03, True)
    built = builder.build_serialized_network(network, settings)
    if account.stopped:
        raise KeyboardInterrupt
    if built is None:
        raise ExportError(f"an engine of {path}", "none: TensorRT's log says why", "read it (logger `tensorrt`)")
    del monitor  # it must outlive the build, which holds no reference of its own

    def combined(kept: bytes) -> bytes:
        cache.combine(settings.create_timing_cache(kept), False)
        return bytes(cache.serialize())

    return EnginePlan(plan=bytes(built), timings=combined)


def open_plan(plan: bytes, version_compatible: bool, weights: Path | None = None) -> BuiltEngine:
    """An engine from its bytes.

    Args:
        plan: the bytes.
        version_compatible: whether it brings a runtime of its own along.
        weights: the ONNX graph whose weights it gets, if not its own.

    Raises:
        ExportError: TensorRT cannot read it.
        ArtefactError: the graph has not the weights that it asks for.
    """
    trt = tensorrt_module()
    runtime = trt.Runtime(tensorrt_log())
    runtime.engine_host_code_allowed = version_compatible
    engine: BuiltEngine | None = runtime.deserialize_cuda_engine(plan)
    if engine is None:
        raise ExportError("an engine that can be read", "one that TensorRT refuses", "read its log (logger `tensorrt`)")
    if weights is not None:
        fill_weights(engine, weights)
    return engine


def layers_of(engine: BuiltEngine, profile: int) -> str:
    """What the inspector prints of an engine's layers under one profile, as JSON."""
    trt = tensorrt_module()
    context = engine.create_execution_context(trt.ExecutionContextAllocationStrategy.ON_PROFILE_CHANGE)
    context.set_optimization_profile_async(profile, 0)
    inspector = engine.create_engine_inspector()
    inspector.execution_context = context
    return inspector.get_engine_information(trt.LayerInformationFormat.JSON)


def weight_bytes_of(engine: BuiltEngine) -> int:
    """The size of an engine's weights, whether it holds them or they were left out."""
    trt = tensorrt_module()
    sizes = (trt.EngineStat.TOTAL_WEIGHTS_SIZE, trt.EngineStat.STRIPPED_WEIGHTS_SIZE)
    return max(engine.get_engine_stat(size) for size in sizes)


def _create_builder_config(
    trt: Any,
    builder: Builder,
    profiles: Sequence[Profile],
    config: EngineConfig,
    timings: bytes,
    account: BuildProgress,
) -> tuple[BuilderConfig, TimingCache, Any]:
    settings = builder.create_builder_config()
    for profile in profiles:
        made = builder.create_optimization_profile()
        for name, (smallest, usual, largest) in profile.shapes.items():
            made.set_shape(name, smallest, usual, largest)
        if settings.add_optimization_profile(made) < 0:
            raise ExportError(
                f"sizes that TensorRT takes for profile {profile.name!r}", str(profile.shapes), "see its log"
            )
    for flag in builder_flags(trt, config):
        settings.set_flag(flag)
    if not config.tf32:
        settings.clear_flag(trt.BuilderFlag.TF32)  # it is on unless it is taken back
    if config.memory_mb is not None:
        settings.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, config.memory_mb * _MIB)
    settings.hardware_compatibility_level = hardware_level(trt, config.hardware)
    settings.profiling_verbosity = trt.ProfilingVerbosity.DETAILED  # or an engine does not say what it fused
    monitor = settings.progress_monitor = monitor_for(trt, account)
    cache = settings.create_timing_cache(timings)
    if not settings.set_timing_cache(cache, False):
        cache = settings.create_timing_cache(b"")
        settings.set_timing_cache(cache, False)
    return settings, cache, monitor


def builder_flags(trt: Any, config: EngineConfig) -> list[Any]:
    flags = []
    if config.weights != "fixed":
        flags.append(trt.BuilderFlag.REFIT)
    if config.weights == "stripped":
        flags.append(trt.BuilderFlag.STRIP_PLAN)
    if config.version_compatible:
        flags.append(trt.BuilderFlag.VERSION_COMPATIBLE)
    return flags


def hardware_level(trt: Any, hardware: Hardware) -> Any:
    levels = {
        "this-gpu": trt.HardwareCompatibilityLevel.NONE,
        "same-capability": trt.HardwareCompatibilityLevel.SAME_COMPUTE_CAPABILITY,
        "ampere-plus": trt.HardwareCompatibilityLevel.AMPERE_PLUS,
    }
    return levels[hardware]


def monitor_for(trt: Any, account: BuildProgress) -> Any:
    # TensorRT calls methods of a class of its own; the account is one of ours, and runs without it.
    calls = ("phase_start", "step_complete", "phase_finish")

    def forward(name: str) -> Callable[..., Any]:
        return lambda _, *arguments: getattr(account, name)(*arguments)

    return type("Monitor", (trt.IProgressMonitor,), {name: forward(name) for name in calls})()
