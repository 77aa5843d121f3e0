"""The stage ONNX artefact → engines beside its graphs: checked, built, held to their plan, and described.

Nothing here imports torch. An engine is built where it is served: it holds for one version of TensorRT and one GPU.
"""

import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from attendant.engine_manifest import EVERY, PLAN_SUFFIX, Engine, EngineManifest, Platform, Profile, stem
from attendant.errors import ArtefactError, ConfigError, ExportError, MachineError
from attendant.folders import one_at_a_time, replaced_folder
from attendant.manifest import Manifest, sha256_of
from attendant.onnx_file import check_onnx_file
from attendant.signature import GraphSignature
from export.artefact.stage import refuse_foreign
from export.passes.tensorrt.passes import TENSORRT
from export.tensorrt.attention_report import attention_report
from export.tensorrt.build_progress import BuildProgress
from export.tensorrt.compat import build_plan, layers_of, open_plan, weight_bytes_of
from export.tensorrt.config import EngineConfig
from export.tensorrt.fusion_plan import describe_fusion
from export.tensorrt.phases import Form, forms_of
from export.tensorrt.plugin_graphs import compile_plugins
from export.tensorrt.timing_cache import keep_timings, read_timings
from serving.runtime.tensorrt.engine_check import aliases_of
from serving.runtime.tensorrt.known_engines import are_known, remember_engines
from serving.runtime.tensorrt.library import tensorrt_module
from serving.runtime.tensorrt.this_machine import this_platform

_MIB = 1 << 20
_FLOAT8_FROM = (8, 9)
"""Compute capability of Ada, the first with products in FP8 (support matrices of TensorRT-RTX and TensorRT-LLM)."""


def build_engines(
    folder: Path,
    out: Path,
    graphs: Sequence[str],
    config: EngineConfig,
    announce: Callable[[str], object] = lambda line: None,
) -> tuple[EngineManifest, bool]:
    """Build the engines of an artefact, unless they are there already.

    Args:
        folder: an exported artefact.
        out: where it stands with its engines; the same folder, or another. Replaced in one step.
        graphs: those to build; all if none is named.
        config: what is asked.
        announce: is told, before anything is built, which attention is expected in fused kernels.

    Returns:
        The engines, and whether anything was done.

    Raises:
        MachineError: there is no TensorRT or no GPU here, or the GPU lacks products of the artefact's precision.
        ArtefactError: the artefact is damaged, or has no such graph.
        ConfigError: graphs are left out without which the others' memories have no reader of their type, or GPUs are
            asked for that lack the precision.
        ExportError: a graph is not what TensorRT reads, its attention was not fused, or it needs too much memory.
        OutputError: the folder cannot be written, or holds something else.
    """
    tensorrt_module()
    platform = this_platform()
    manifest = Manifest.read(folder)
    manifest.verify(folder)
    _require_float8(manifest, platform, config)
    signatures = [manifest.graph(name) for name in graphs] or list(manifest.graphs_for(TENSORRT))
    command = command_of(folder, out, graphs, config)
    current = _current(out, manifest, platform, command)
    if current is not None and are_known(out):
        return current, False
    _require_readers(manifest, [signature.name for signature in signatures])
    refuse_foreign(out)
    with one_at_a_time(out), replaced_folder(out) as staged:
        copy_artefact(folder, manifest, staged)
        forms = [(one, form) for one in signatures for form in forms_of(one.name, manifest, staged, config)]
        for one, form in forms:
            announce(describe_fusion(stem(one.name, form.phase), form.expected))
        engines = [_build(one, form, manifest, staged, config, platform) for one, form in forms]
        described = EngineManifest(name=manifest.name, platform=platform, engines=tuple(engines), command=command)
        described.write(staged)
    try:
        remember_engines(out)
    except MachineError as error:  # they may have taken an hour
        announce(f"{error}; say before they run: attendant engines trust {out}")
    return described, True


def _require_float8(manifest: Manifest, platform: Platform, config: EngineConfig) -> None:
    if manifest.precision != "fp8":
        return
    expected = f"GPUs of compute capability 8.9 or higher for {manifest.name!r} in fp8"
    remedy = f"export it again: `attendant export onnx {manifest.source} --precision fp16`"
    if tuple(map(int, platform.capability.split("."))) < _FLOAT8_FROM:
        raise MachineError(expected, f"{platform.gpu} of compute capability {platform.capability}", remedy)
    if config.hardware == "ampere-plus":
        raise ConfigError(expected, "--hardware ampere-plus", f"build with --hardware this-gpu, or {remedy}")


def _require_readers(manifest: Manifest, built: Sequence[str]) -> None:
    changed = [one.name for one in manifest.graphs if manifest.signature_for(one.name, TENSORRT) != one]
    left_out = sorted({*changed} - {*built})
    if left_out and {*changed} & {*built}:
        raise ConfigError(
            f"engines of {' and '.join(changed)}, which hand each other other types in TensorRT's form",
            f"--graphs without {' and '.join(left_out)}",
            "leave --graphs out",
        )


def command_of(folder: Path, out: Path, graphs: Sequence[str], config: EngineConfig) -> str:
    chosen = ["--graphs", *graphs] if graphs else []
    elsewhere = ["--out", str(out)] if out != folder else []
    return shlex.join(["attendant", "export", "tensorrt", str(folder), *elsewhere, *chosen, *config.flags()])


def copy_artefact(folder: Path, manifest: Manifest, staged: Path) -> None:
    """Put an artefact's files into another folder, its engines apart."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and (path.name in manifest.files or path.suffix in (".sh", ".json")):
            shutil.copyfile(path, staged / path.name)
            shutil.copymode(path, staged / path.name)


def _current(out: Path, manifest: Manifest, platform: Platform, command: str) -> EngineManifest | None:
    try:
        current = EngineManifest.read(out)
        if current is None or (current.platform, current.command) != (platform, command):
            return None
        current.verify(out, manifest)
    except ArtefactError:
        return None
    return current


def _build(
    signature: GraphSignature, form: Form, manifest: Manifest, folder: Path, config: EngineConfig, platform: Platform
) -> Engine:
    name = stem(signature.name, form.phase)
    with compile_plugins(config, platform) as embedded:
        account = BuildProgress(f"{manifest.name}/{name}")
        timings, aliased = read_timings(platform), bool(form.aliases)
        built = build_plan(form.path, form.profiles, config, timings, account, aliased)
    keep_timings(platform, built.timings)
    plan = folder / f"{name}{PLAN_SUFFIX}"
    plan.write_bytes(built.plan)
    return replace(describe_engine(plan, signature, form, manifest, config), plugins=embedded())


def describe_engine(
    plan: Path, signature: GraphSignature, form: Form, manifest: Manifest, config: EngineConfig
) -> Engine:
    """What a manifest says of an engine, read from the engine itself.

    Raises:
        ExportError: its attention was not fused, or it needs more memory than it may take.
    """
    opened = open_plan(
        plan.read_bytes(), config.version_compatible, form.path if config.weights == "stripped" else None
    )
    profiles = form.profiles or (Profile(name=EVERY, shapes={}),)
    reports = [
        attention_report(signature.name, number, layers_of(opened, number), form, config.allow_decomposed)
        for number in range(len(profiles))
    ]
    device, weights = opened.device_memory_size_v2, weight_bytes_of(opened)
    if config.memory_mb is not None and device + weights > config.memory_mb * _MIB:
        raise ExportError(
            f"at most {config.memory_mb} MiB for graph {signature.name!r}, as --memory-mb says",
            f"{weights / _MIB:.0f} MiB of weights and {device / _MIB:.0f} MiB to compute with",
            "allow more, or export for smaller batches",
        )
    return Engine(
        graph=signature.name,
        phase=form.phase,
        sha256=sha256_of(plan),
        source=form.source,
        built_from=sources_of(manifest, plan.parent, form.source),
        profiles=profiles,
        # The same object, of which each side states its part; of plugins' aliases it need not tell.
        aliases={**aliases_of(opened), **form.aliases},  # type: ignore[arg-type]
        weights=config.weights,
        hardware=config.hardware,
        version_compatible=config.version_compatible,
        attention=reports[0],
        lowered=form.lowered,
        device_bytes=device,
        weight_bytes=weights,
    )


def sources_of(manifest: Manifest, folder: Path, file: str) -> dict[str, str]:
    """An ONNX file of an artefact and those that hold its weights, with their hashes."""
    return {name: manifest.files[name] for name in (file, *sorted(check_onnx_file(folder / file)))}
