"""The verb that tunes an export: in which form a language model is the fastest on this machine."""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from attendant.errors import ConfigError, InputError
from attendant.folders import replaced_folder, staged_beside
from export.artefact.stage import export_onnx, refuse_foreign
from export.precision.precisions import PrecisionName
from export.tuning.forms import Form, forms_of
from export.tuning.timing import Requests, Timing, time_requests
from serving.runtime.processor import processor_name

TUNING_NAME = "tuning.json"
LEVEL = 1.03
"""Slower by less than that is as fast: then the smaller one is chosen."""


def tune(
    model: Positional[str],
    out: Path,
    precisions: tuple[PrecisionName, ...] = ("fp32", "int8", "int4", "int4-kv8"),
    prompt_tokens: int = 128,
    answer_tokens: int = 128,
    batch: int = 1,
    threads: int | None = None,
    seconds: float = 60.0,
    calibration: Path | None = None,
) -> int:
    """Export a language model in each of several precisions, time them here, and keep the fastest.

    attendant export tune stdlib-lm --out build/tuned --prompt-tokens 1000 --answer-tokens 200 --batch 8

    Each form is exported beside OUT, loaded, and asked what you say that you serve; OUT is then the one that takes the
    least time for a whole answer. What was measured, and on which processor, lies in its tuning.json.
    How exact each form is says `attendant verify`. A precision that the model cannot be exported in is left out, with
    the reason.

    Args:
        model: as of `attendant export onnx`.
        out: the artefact's folder; replaced in one step.
        precisions: to try; those of 4 bits also with prompts read in 8.
        prompt_tokens: of each request.
        answer_tokens: of each request.
        batch: requests at once.
        threads: for the work inside one operator; the processors of this machine if not given.
        seconds: how long to measure, all forms together; loading and exporting come on top.
        calibration: real inputs, as of `attendant export onnx`.
    """
    requests = Requests(prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, batch=batch)
    threads = threads or len(os.sched_getaffinity(0))
    forms = forms_of(precisions)
    if not forms:
        raise ConfigError("precisions in which a CPU can decode", " ".join(precisions), "name others")
    refuse_foreign(out)
    timings, left_out = dict[Form, Timing](), dict[str, str]()
    with staged_beside(out) as staged:
        base = staged / "fp32"  # whose graphs the others are made of
        if Form("fp32") not in forms:
            with suppress(InputError):
                export_onnx(model, base, precision="fp32")
        for number, form in enumerate(forms, start=1):
            sys.stderr.write(f"{number}/{len(forms)} {form.name}: export, load and time it\n")
            folder = staged / form.name
            try:
                export_onnx(model, folder, False, False, form.precision, calibration, base, form.prefill)
            except InputError as error:
                left_out[form.name] = str(error)
                continue
            timings[form] = time_requests(folder, requests, threads, seconds / len(forms))
        if not timings:
            raise InputError(
                "a precision that the model can be exported in", "; ".join(left_out.values()), "name others"
            )
        chosen = fastest(timings, requests)
        with replaced_folder(out) as folder:
            shutil.copytree(staged / chosen.name, folder, dirs_exist_ok=True)
            text = dumps(report(timings, left_out, chosen, requests, threads), indent=1)
            (folder / TUNING_NAME).write_text(f"{text}\n", encoding="utf-8")
    show(timings, left_out, chosen, requests)
    sys.stdout.write(f"{out} is {chosen.name}: attendant export onnx {model} {chosen.flags} --out {out}\n")
    return 0


def fastest(timings: Mapping[Form, Timing], requests: Requests) -> Form:
    """The form that takes the least time for whole answers; of those that are level, the smallest."""
    least_s = min(timing.seconds(requests) for timing in timings.values())
    level = [form for form, timing in timings.items() if timing.seconds(requests) <= LEVEL * least_s]
    return min(level, key=lambda form: timings[form].megabytes)


def report(
    timings: Mapping[Form, Timing], left_out: Mapping[str, str], chosen: Form, requests: Requests, threads: int
) -> dict[str, Any]:
    """What was measured, as JSON."""
    return {
        "processor": processor_name(),
        "threads": threads,
        "requests": asdict(requests),
        "forms": {
            form.name: {**asdict(timing), "answer_s": timing.seconds(requests)} for form, timing in timings.items()
        },
        "left_out": dict(left_out),
        "chosen": chosen.name,
    }


def show(timings: Mapping[Form, Timing], left_out: Mapping[str, str], chosen: Form, requests: Requests) -> None:
    """Print a line a form, the fastest first."""
    title = (
        f"{requests.batch} at once, {requests.prompt_tokens} tokens of a prompt, {requests.answer_tokens} of an answer"
    )
    table = Table(title=title)
    for column in ("form", "MB", "first token, ms", "tokens/s", "answer, s", ""):
        table.add_column(column, justify="left" if column in ("form", "") else "right")
    for form, timing in sorted(timings.items(), key=lambda one: one[1].seconds(requests)):
        figures = (
            f"{timing.megabytes:.1f}",
            f"{1e3 * timing.first_token_s:.1f}",
            f"{requests.batch / timing.step_s:.0f}",
        )
        table.add_row(form.name, *figures, f"{timing.seconds(requests):.3f}", "chosen" if form == chosen else "")
    for name, reason in left_out.items():
        table.add_row(name, "", "", "", "", f"left out: {reason}")
    console = Console()
    console.width = max(console.width, 100)
    console.print(table)
