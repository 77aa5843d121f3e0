"""The verbs on artefacts: write them, prove them, look inside, build engines."""

import sys
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from attendant.errors import ArtefactError
from export.artefact.stage import TorchPrecision
from export.bounded.process import TIMEOUT_S, run_bounded
from export.precision.precisions import NAMES, PrecisionName, PrefillName, describe_precisions
from export.tensorrt.config import EngineConfig

_NO_KERNELS = (
    "ONNX Runtime's CPU provider has no operators of {0}: the graphs run there in fp32, and round wherever {0} rounds\n"
)
_CONFIG = EngineConfig()
_Precision = Annotated[
    PrecisionName | None,
    arg(help=f"{describe_precisions()} Without it fp32, or what keeps the weights of a checkpoint in integers."),
]


def onnx(
    model: Positional[str],
    out: Path,
    precision: _Precision = None,
    calibration: Path | None = None,
    explain: bool = False,
    uint8: bool = False,
    prefill: PrefillName | None = None,
) -> int:
    """Write opset-24 graphs of standard operators and a manifest.json.

    Nothing is done where the folder already holds this very export.

    Args:
        model: a checkpoint folder, a .py or .pt2 file of your own (docs/tutorials/your-own-model.md), a shipped
            checkpoint, or a preset (see `attendant models list`); a Hugging Face folder or a .gguf file is imported
            first, to OUT-checkpoint.
        out: the artefact's folder; replaced in one step.
        precision: of the graphs; :data:`export.precision.precisions.PRECISIONS` says what each is.
        calibration: real inputs for fp8, int8-static and int4-kv8: a folder of images, a file with a text in each line,
            or an .npz of tensors; of a shipped checkpoint its training data if not given.
        uint8: take images as bytes, [height, width, channels], and scale and normalise them in the graph.
        explain: add a graph that also shows what the model attends to, for requests that ask for it.
        prefill: add a graph that reads a language model's prompts in this precision, beside one of 4 bits that is
            faster at single tokens: the first token comes sooner, for a byte of memory more a weight.
    """
    from export.artefact.stage import export_onnx

    manifest, done = export_onnx(model, out, explain, uint8, precision, calibration, prefill=prefill)
    graphs = ", ".join(f"{graph.name}.onnx" for graph in manifest.graphs)
    sys.stdout.write(f"{manifest.name}: {graphs} {'written to' if done else 'up to date in'} {out}\n")
    return 0


def torch(model: Positional[str], out: Path, precision: TorchPrecision = "fp32") -> int:
    """Write a checkpoint as an artefact that PyTorch itself serves, on a GPU or, slowly, on a CPU; no ONNX.

    Nothing is done where the folder already holds this very export.

    Args:
        model: a checkpoint folder, a shipped checkpoint, or a preset (see `attendant models list`).
        out: the artefact's folder; replaced in one step.
        precision: of weights, caches and what is computed.
    """
    from export.artefact.stage import export_torch

    manifest, done = export_torch(model, out, precision)
    sys.stdout.write(f"{manifest.name}: {manifest.precision} {'written to' if done else 'up to date in'} {out}\n")
    return 0


def check(
    folder: Positional[Path],
    source: str | None = None,
    full: bool = False,
    json: bool = False,
    target: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Compare an artefact with PyTorch in float64, by every runtime that serves it.

    PyTorch in float32, ONNX Runtime, and OpenVINO if installed; of an artefact of `export torch`, torch itself.
    Batch sizes, lengths, padding, and every split of a cached decode against the full forward pass; then drift, KL,
    first choices, greedy and right answers against the precision's budget, on held-out data where the checkpoint is a
    shipped one. Writes parity.json. A .py or .pt2 file is run only where --source names it.
    With --target, validate each graph for that runtime instead, and run nothing.
    It works in a process of its own: a graph that fails, takes too long or takes too much memory ends that one alone.

    Args:
        folder: an exported artefact.
        source: the checkpoint to compare with, if not the one that the manifest names.
        full: ask every held-out text of a language model, not some of them.
        json: print the verdicts as JSON instead of tables.
        target: ort-cpu, attendant-cpu, ort-cuda, openvino-cpu, tensorrt or tensorrt-10.16; attendant-cpu and TensorRT
            are given their own forms of graphs.
        timeout_s: how long a runtime may take to load a graph, or to run it once.
    """
    if target is not None:
        return _check_target(folder, target, json, timeout_s)
    from attendant.manifest import Manifest
    from export.parity.report import print_levels
    from export.precision.precisions import precision_named
    from export.quality.report import print_quality
    from export.quality.verification import verify_artefact
    from models.checkpoints.place import OWN_SUFFIX, PROGRAM_SUFFIX

    manifest = Manifest.read(folder)
    if source is None and manifest.source.endswith((OWN_SUFFIX, PROGRAM_SUFFIX)):
        remedy = f"if you trust it, name it yourself: --source {manifest.source}"
        raise ArtefactError("a checkpoint to compare with", "a file of your own, which only you may have run", remedy)
    precision = precision_named(manifest.precision)
    if manifest.form == "onnx" and not precision.ort_cpu:
        sys.stderr.write(_NO_KERNELS.format(precision.name))
    found = verify_artefact(folder, source, full, timeout_s)
    if json:
        levels = [asdict(level) for level in found.levels]
        sys.stdout.write(dumps({"levels": levels, "quality": found.quality}, indent=2) + "\n")
    else:
        print_levels(folder.name, found.levels)
        print_quality(folder.name, precision.name, found.qualities, found.verdicts)
    found.require()
    return 0


def _check_target(folder: Path, name: str, json: bool, timeout_s: float) -> int:
    from export.targets.check import require_valid
    from export.targets.report import print_checks

    target, checks = run_bounded("export.targets.check:validate_for_target", folder, name, timeout_s=timeout_s)
    if json:
        sys.stdout.write(dumps([one.to_json() for one in checks], indent=2) + "\n")
    else:
        print_checks(folder.name, target, checks)
    require_valid(target, checks)
    return 0


def inspect(
    folder: Positional[Path], html: Path | None = None, json: bool = False, timeout_s: float = TIMEOUT_S
) -> int:
    """Show an artefact at a glance: operators, weights by type, where the time goes, the cache's size, files.

    Times are ONNX Runtime's own, measured on one thread of this machine. It works in a process of its own: a graph that
    fails, takes too long or takes too much memory ends that one alone.

    Args:
        folder: an exported artefact.
        html: a page to write as well.
        json: print the facts as JSON instead of tables.
        timeout_s: how long ONNX Runtime may take to measure a graph.
    """
    from export.inspection.page import write_page
    from export.inspection.report import print_facts

    facts = run_bounded("export.inspection.inspection:inspect_artefact", folder, timeout_s=timeout_s)
    if html is not None:
        write_page(facts, html)
    if json:
        sys.stdout.write(dumps(facts.to_json(), indent=2) + "\n")
    else:
        print_facts(facts)
    return 0


def compare(
    models: Positional[tuple[str, ...]],
    out: Path,
    precisions: tuple[PrecisionName, ...] = NAMES,
    full: bool = False,
    page: Path | None = None,
) -> int:
    """Export models in every precision and show what each costs: bytes, drift, KL, first choices, right answers.

    Args:
        models: as for `onnx`; every shipped checkpoint if none is named.
        out: a folder of artefacts, one a model and precision; those that are there and unchanged are taken.
        precisions: some instead of all.
        full: ask every held-out text of a language model, not some of them.
        page: a file to write as well, as docs/reference/precision.md is.
    """
    from export.quality.comparison import compare_models
    from export.quality.comparison_report import print_compared
    from export.quality.page import write_page
    from models.checkpoints.place import shipped_names

    compared = list(compare_models(models or shipped_names(), precisions, out, full))
    print_compared(compared)
    if page is not None:
        write_page(compared, full, page)
    return 0


def engine(
    folder: Positional[Path],
    out: Path | None = None,
    graphs: tuple[str, ...] = (),
    config: OmitArgPrefixes[EngineConfig] = _CONFIG,
) -> int:
    """Build a TensorRT engine of each graph, on the machine that shall run it; see docs/guides/tensorrt.md.

    Graphs are validated for TensorRT first, in the form that its parser takes. It fails where attention did not become
    one kernel, unless that is allowed. Nothing is done where the folder already holds just these engines.

    Args:
        folder: an exported artefact.
        out: where it stands with its engines, if not in the same folder; replaced in one step.
        graphs: those to build, instead of all.
        config: what is asked of the builder.
    """
    from export.tensorrt.build import build_engines

    def announce(line: str) -> None:
        sys.stderr.write(f"{line}\n" if line else "")

    engines, done = build_engines(folder, out or folder, graphs, config, announce)
    files = ", ".join(one.file for one in engines.engines)
    where = f"{engines.platform.gpu}, TensorRT {engines.platform.tensorrt}"
    sys.stdout.write(f"{engines.name}: {files} {'built' if done else 'up to date'} for {where}\n")
    for one in engines.engines:
        counts = ", ".join(f"{count} {kernel}" for kernel, count in one.attention.items()) or "none"
        sys.stdout.write(f"  {one.file}: attention in {counts}\n")
    return 0


def refit(folder: Positional[Path], engines: Path) -> int:
    """Give an artefact the engines of another export of the same architecture, with its own weights: nothing is built.

    Args:
        folder: the exported artefact that has the weights; replaced in one step.
        engines: the artefact that has the engines, built refittable or stripped.
    """
    from export.tensorrt.refit import refit_engines

    refitted = refit_engines(folder, engines)
    sys.stdout.write(f"{refitted.name}: {', '.join(one.file for one in refitted.engines)} refitted in {folder}\n")
    return 0
