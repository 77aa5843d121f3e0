"""Which artefacts nothing executes as it is requested, known from the manifest alone."""

from attendant.engine_manifest import EngineManifest
from attendant.errors import ConfigError, MachineError
from attendant.manifest import Manifest
from attendant.parameters import DEVICES, RUNTIMES, Device, Runtime


def require_executable(
    manifest: Manifest, runtime: Runtime, device: Device = "auto", engines: EngineManifest | None = None
) -> None:
    """Refuse an artefact that cannot be executed as it is requested.

    Args:
        manifest: the artefact's.
        runtime: that is requested.
        device: that torch is asked to run on.
        engines: those that TensorRT runs.

    Raises:
        ConfigError: no runtime or device is called so, or they are another form's than the artefact's.
        MachineError: no runtime has operators of its type, or the one that is requested has none.
    """
    if runtime not in RUNTIMES:
        raise ConfigError(f"a runtime, one of {list(RUNTIMES)}", repr(runtime), "correct --runtime")
    if device not in DEVICES:
        raise ConfigError(f"a device, one of {list(DEVICES)}", repr(device), "correct --device")
    if manifest.form == "torch":
        if runtime != "auto":
            raise ConfigError(f"runtime auto for {manifest.name!r}, which torch runs", runtime, "leave --runtime out")
        return
    if device.startswith("cuda"):
        remedy = f"leave --device out, or make another with `attendant export torch {manifest.name}`"
        raise ConfigError(f"an artefact of `export torch` for device {device}", f"ONNX graphs: {manifest.name}", remedy)
    built = {engine.graph for engine in engines.engines} if engines is not None else set()
    graphs = [graph for graph in manifest.graphs_for("tensorrt") if graph.name not in built]
    if "onnxruntime" in manifest.runtimes or not graphs:
        return
    cached = [graph.name for graph in graphs if graph.aliases]
    if cached or runtime == "onnxruntime":
        raise MachineError(
            f"a runtime on a CPU for {manifest.name!r} in {manifest.precision}",
            "ONNX Runtime, which has no operators of that type"
            + (f", and OpenVINO, which updates no cache as {cached} do" if cached else ""),
            "serve an export with --precision fp16 or one of `attendant export torch`, or build engines on a GPU: "
            "`attendant export tensorrt`",
        )
