"""The verbs on anybody's ONNX file: narrower, and where two of them part."""

import sys
from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path

from tyro.conf import Positional

from attendant.errors import ConfigError, ExportError, OutputError
from attendant.folders import staged_beside
from attendant.onnx_file import weights_beside
from export.bounded.process import TIMEOUT_S, run_bounded
from export.mixed_precision.outcome import Outcome
from export.mixed_precision.request import NarrowPrecision, Request, sizes_of
from export.precision.calibration.files import array_files


def precision(
    file: Positional[Path],
    to: NarrowPrecision,
    out: Path,
    target: str = "tensorrt",
    calibration: Path | None = None,
    samples: int = 2,
    sizes: tuple[str, ...] = (),
    budget: float | None = None,
    narrow_io: bool = False,
    report: Path | None = None,
    json: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Write anybody's float32 ONNX file in fp16, bf16 or int8; what measurably needs float32 keeps it.

    Every type is stated in the file, as TensorRT 11 wants it. Inputs and outputs keep theirs. It works in a process of
    its own, bounded in time and memory. Where the written file violates a constraint of the target, the status is 1.

    Args:
        file: an ONNX file; weights outside of it lie in its folder.
        to: fp16 and bf16 store and compute; int8 rounds both factors of MatMul, Gemm and Conv, the rest is float32.
        out: the file to write; weights of more than a gibibyte stand in a file beside it.
        target: whose tables and constraints are kept to: tensorrt, ort (ONNX Runtime on a CPU), or another target of
            `attendant verify`.
        calibration: an .npz with arrays named as the inputs, an .npy for one input, or a folder of such; the first axis
            counts samples. Without it, inputs are drawn at random.
        samples: how many are drawn, with the seeds 0, 1, and so on.
        sizes: of varying axes, for inputs that are drawn: height=224 width=224; if not given, 1 for a
            first axis and 16 for others.
        budget: the largest drift, in standard deviations of the float32 values; by default 0.005 for fp16, 0.04 for
            bf16, 0.1 for int8.
        narrow_io: give float32 inputs and outputs the narrower type too.
        report: a page of HTML to write as well.
        json: print the outcome as JSON.
        timeout_s: how long ONNX Runtime may take to load the graph, or to run it once.
    """
    from export.mixed_precision.page import write_page
    from export.mixed_precision.report import print_outcome

    request = Request(
        precision=to,
        target=target,
        calibration=calibration,
        samples=samples,
        sizes=sizes_of(sizes),
        budget=budget,
        narrow_io=narrow_io,
    )
    _require_apart(file, calibration, {"--out": [out, out.with_name(f"{out.name}.data")], "--report": [report]})
    if narrow_io and to == "int8":
        raise ConfigError("--narrow-io with fp16 or bf16", "int8, whose inputs are float32", "leave --narrow-io out")
    try:
        with staged_beside(out) as place:
            convert = "export.mixed_precision.convert:convert_file"
            outcome = run_bounded(convert, file, place / out.name, request, timeout_s=timeout_s)
            for written in sorted(place.iterdir(), reverse=True):  # weights first, then the graph that names them
                written.replace(out.parent / written.name)
    except OSError as error:
        raise OutputError(f"a place to write at {out}", str(error), "choose another --out") from error
    if report is not None:
        write_page(outcome, report)
    if json:
        sys.stdout.write(dumps(outcome.to_json(), indent=2) + "\n")
    else:
        print_outcome(outcome)
    _require_valid(outcome)
    return 0


def _require_apart(file: Path, calibration: Path | None, written: Mapping[str, Sequence[Path | None]]) -> None:
    samples = [] if calibration is None else array_files(calibration)
    taken = {path.resolve() for path in (file, *samples, *(weights_beside(file) if file.is_file() else ()))}
    for flag, path in [(flag, path) for flag, paths in written.items() for path in paths if path is not None]:
        if path.resolve() in taken:
            raise OutputError("another file to write than those read or written", str(path), f"choose another {flag}")
        taken.add(path.resolve())


def _require_valid(outcome: Outcome) -> None:
    broken = [(check, violation) for check in outcome.checks for violation in check.violations]
    if broken:
        check, violation = broken[0]
        others = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise ExportError(
            f"{check.constraint.statement}, as {outcome.target} wants ({check.constraint.source})",
            f"at {violation.node} of {outcome.out}: {violation.found}{others}",
            "change the model where it is exported, or choose another --target; the file is written all the same",
        )


def bisect(
    first: Positional[Path],
    second: Positional[Path | None] = None,
    to: NarrowPrecision = "fp16",
    tolerance: float = 0.01,
    calibration: Path | None = None,
    samples: int = 2,
    sizes: tuple[str, ...] = (),
    json: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Name the first node whose output drifts between two ONNX files, or between a file and its narrower precision.

    Values are compared by name, in the order of the first graph; a drift counts where it reaches an output. It works in
    a process of its own.

    Args:
        first: an ONNX file.
        second: another of the same model; without it, the first one with every operator in --to that can be.
        to: fp16 or bf16.
        tolerance: the drift from which a value counts, in standard deviations of the first graph's values.
        calibration: inputs, as of `attendant export precision`.
        samples: how many inputs are drawn, with the seeds 0, 1, and so on.
        sizes: of varying axes, for inputs that are drawn.
        json: print every value as JSON.
        timeout_s: how long ONNX Runtime may take to load a graph, or to run it once.
    """
    from export.mixed_precision.report import print_bisection

    request = Request(precision=to, calibration=calibration, samples=samples, sizes=sizes_of(sizes))
    function = "export.mixed_precision.bisect:bisect_files"
    bisection = run_bounded(function, first, second, request, tolerance, timeout_s=timeout_s)
    if json:
        sys.stdout.write(dumps(bisection.to_json(), indent=2) + "\n")
    else:
        print_bisection(bisection)
    return 0
