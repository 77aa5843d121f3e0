"""The generated pages of docs/reference: verbs, sampling parameters, errors, metrics, lint rules and the manifest.

``python -m commands.reference`` writes them; a test compares them with the code.
"""

import contextlib
import inspect
import io
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints
from unittest.mock import patch

from attendant import errors
from attendant.cli import Group, Verbs, run
from attendant.engine_manifest import ENGINE_MANIFEST_NAME, Engine, EngineManifest, Platform, Profile
from attendant.manifest import FORMAT, MANIFEST_NAME, Lowered, Manifest
from attendant.parameter_tables import parameter_tables
from attendant.signature import Axis, GraphSignature, TensorSpec
from commands.attendant import VERBS
from serving.engine.meter import BOUNDS_S, MetricRow, engine_metric_rows
from serving.gateway.answers import TokenUsage
from serving.gateway.middleware.metrics import SECONDS, Metrics, Upstreams
from serving.lint.page import lint_page

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
WIDTH = 100
"""Characters of a line of help."""
WRITTEN = "`python -m commands.reference` writes this page from the code.\n\n"
MANIFEST_PARTS = (
    (MANIFEST_NAME, (Manifest, GraphSignature, TensorSpec, Axis, Lowered)),
    (ENGINE_MANIFEST_NAME, (EngineManifest, Platform, Engine, Profile)),
)
"""File → what it holds, from the whole to its parts."""


def command_line_page() -> str:
    """Every verb with what ``--help`` says of it."""
    head = f"# Command line\n\n{WRITTEN}"
    return head + "".join(f"## attendant {verb}\n\n```text\n{_help_of(verb)}```\n\n" for verb in _names(VERBS, ""))


def sampling_parameters_page() -> str:
    """Every parameter of an answer: its tensor, range, default and OpenAI's name."""
    return (
        f"# Sampling parameters\n\n{WRITTEN}"
        "What a request can ask of a generative model. A parameter has one name everywhere: a flag of\n"
        "`attendant generate`, `translate` and `caption` (`--top-k`), a field of `SamplingParams` and of the\n"
        "gateway's requests (`top_k`), and Triton's tensor. The column OpenAI is the field of OpenAI's API.\n"
        "[Ask a generative model](../guides/decoding.md) shows them at work.\n\n"
        "An answer is the same whatever else is served, but where two continuations of a token are equally probable\n"
        "to the last bit: [What an answer depends on](../guides/generation.md#what-an-answer-depends-on).\n\n"
    ) + parameter_tables().replace("### ", "## ")


def errors_page() -> str:
    """Every kind of error: its code, the exit status of a command, and what it means."""
    head = (
        f"# Errors\n\n{WRITTEN}"
        "A model's body sends an error as JSON with `code`, `param`, `expected`, `found`, `remedy` and `message`;\n"
        "clients raise the class, and the gateway answers with the code. Nothing parses the message.\n\n"
        "| code | class | exit status | meaning |\n|---|---|---|---|\n"
    )
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.AttendantError)]
    rows = (
        f"| `{kind.code}` | `{kind.__name__}` | {kind.exit_status} | {(kind.__doc__ or '').partition(chr(10))[0]} |\n"
        for kind in sorted(kinds, key=lambda kind: kind.code)
    )
    return head + "".join(rows)


def metrics_page() -> str:
    """Every metric that the engines and the gateway register."""
    engine_buckets, gateway_buckets = (", ".join(f"{bound:g}" for bound in bounds) for bounds in (BOUNDS_S, SECONDS))
    return (
        f"# Metrics\n\n{WRITTEN}"
        "[The generation server](../guides/generation.md#metrics) says what to watch. A histogram is the series\n"
        "`_bucket`, `_sum` and `_count`, so that `histogram_quantile` works on it. Triton's own metrics (`nv_…`) are\n"
        "in its manual.\n\n## Engine\n\nOf every generative model, on Triton's metrics port (8002), updated about\n"
        f"four times a second. Buckets of times, in seconds:\n{engine_buckets}.\n\n"
        f"{_metric_table(engine_metric_rows())}\n"
        "## Gateway\n\nAt `/metrics` of the gateway. Buckets of times, in seconds:\n"
        f"{gateway_buckets}.\n\n{_metric_table(_gateway_metric_rows())}"
    )


def manifest_page() -> str:
    """Every field of the files that travel with an artefact."""
    head = (
        f"# Manifest\n\n{WRITTEN}"
        f"`{MANIFEST_NAME}` (format {FORMAT}) is the one description of an artefact that later stages read;\n"
        f"`{ENGINE_MANIFEST_NAME}` lies beside it where TensorRT engines were built.\n\n"
    )
    parts = (f"## {name}\n\n{''.join(map(_record_table, records))}" for name, records in MANIFEST_PARTS)
    return (head + "".join(parts)).rstrip("\n") + "\n"


PAGES = {
    "command-line.md": command_line_page,
    "sampling-parameters.md": sampling_parameters_page,
    "errors.md": errors_page,
    "metrics.md": metrics_page,
    "lint-rules.md": lint_page,
    "manifest.md": manifest_page,
}


def _gateway_metric_rows() -> Iterator[MetricRow]:
    # A metric with labels has none to show before a request is counted.
    metrics = Metrics()
    metrics.record(
        "/v1/completions", 200, 1.0, TokenUsage(prompt=1, completion=1, first_s=1.0), 0.0, "server_unreachable"
    )
    server = SimpleNamespace(address="127.0.0.1:8001", in_flight=0, models=["any"], is_ejected=lambda _: False)
    upstreams = Upstreams(cast("Any", SimpleNamespace(upstreams=[server])))
    for family in (*metrics.registry.collect(), *upstreams.collect()):
        labels = tuple(label for label in family.samples[0].labels if label != "le")
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield MetricRow(name, cast("Any", family.type), labels, family.documentation)


def _metric_table(rows: Iterable[MetricRow]) -> str:
    lines = (
        f"| `{name}` | {kind} | {', '.join(map('`{}`'.format, labels))} | {text} |\n"
        for name, kind, labels, text in rows
    )
    return "| metric | type | labels | meaning |\n|---|---|---|---|\n" + "".join(lines)


def _record_table(record: type[Any]) -> str:
    """The fields of a dataclass, each with the meaning that its docstring gives it."""
    text = inspect.getdoc(record) or ""
    attributes = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    meanings = dict(
        re.findall(r"^    (\w+): ((?:.|\n(?=        ))+)", attributes[1] if attributes else "", re.MULTILINE)
    )
    types = get_type_hints(record)
    rows = (
        f"| `{one.name}` | {_type_of(types[one.name])} | {_default_of(one)} "
        f"| {' '.join(meanings[one.name].split()).replace('``', '`')} |\n"
        for one in fields(record)
    )
    head = f"### {record.__name__}\n\n{text.partition(chr(10))[0]}\n\n"
    return f"{head}| field | type | default | meaning |\n|---|---|---|---|\n{''.join(rows)}\n"


def _type_of(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    words = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    words = re.sub(r"\b(?:\w+\.)+(?=\w)", "", re.sub(r"typing\.Literal\[[^]]*\]", "str", words))
    return f"`{words}`".replace(" | ", " or ")


def _default_of(one: Field[Any]) -> str:
    if one.default_factory is not MISSING:
        return f"`{one.default_factory()}`"
    return "" if one.default is MISSING else f"`{one.default!r}`"


def _names(verbs: Verbs, before: str) -> Iterator[str]:
    for name, verb in verbs.items():
        if isinstance(verb, Group):
            yield from _names(verb.verbs, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def _help_of(verb: str) -> str:
    said = io.StringIO()
    with (
        patch.dict("os.environ", {"COLUMNS": str(WIDTH)}),
        contextlib.redirect_stdout(said),
        contextlib.suppress(SystemExit),
    ):
        run("attendant", "", VERBS, [*verb.split(), "--help"])
    return "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"{FOLDER / name}\n")
