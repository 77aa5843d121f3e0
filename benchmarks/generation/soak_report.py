"""What a soak found, as Markdown, JSON and a plot of memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.generation.written import preamble, table, write_result

NAME = "generation-soak"


def write_report(found: dict[str, Any], out: Path | None, words: list[str]) -> str:
    """The report; also written into a folder if one is given.

    Args:
        found: by the soak.
        out: the folder.
        words: of the command line.
    """
    text = "\n".join(
        [
            *preamble("A soak of the generation server", f"benchmarks/{NAME.replace('-', '_')}.py", words),
            *_verdict(found),
            *_load(found["load"]),
            *_answers(found),
            *_counts(found["counts"]),
            *_memory(found["memory"]),
        ]
    )
    if out is not None:
        stem = write_result(out, NAME, text, found)
        _plot(found["memory_samples"], stem.with_suffix(".png"))
    return text + "\n"


def _verdict(found: dict[str, Any]) -> Iterable[str]:
    yield "**Nothing is wrong.**" if not found["wrong"] else "**Wrong:** " + "; ".join(found["wrong"])
    yield ""


def _load(load: dict[str, Any]) -> Iterable[str]:
    yield "## Load\n"
    yield (
        f"{load['requests']} requests in {load['seconds']:.0f} s (asked for: {load['rate']:g} a second, Poisson); "
        f"{load['most_in_flight']} in flight at most of {load['bound_in_flight']} allowed, {load['held_back']} waited "
        f"for that bound. {load['responses']} responses with {load['tokens']} tokens came, "
        f"{load['tokens'] / load['seconds']:.0f} tokens a second. Other "
        f"processes used {load['foreign']:.0%} of the processors meanwhile.\n"
    )
    for name in ("models", "kinds", "outcomes"):
        yield f"- {name}: " + ", ".join(f"{key} {count}" for key, count in sorted(load[name].items()))
    for error, count in load["errors"].items():
        yield f"- {count} failed: {error}"
    for name, meaning in (
        ("first_response_ms", "first response"),
        ("slot_freed_ms", "from a taking back to the end of its stream, when its slots are free"),
    ):
        yield f"- {meaning}: " + ", ".join(f"{key} {value:.1f} ms" for key, value in load[name].items())
    yield ""


def _answers(found: dict[str, Any]) -> Iterable[str]:
    compared = ", ".join(f"{count} {name}" for name, count in sorted(found["compared"].items()))
    yield f"## Answers beside the same request alone\n\nCompared in {found['compared_s']:.0f} s: {compared}.\n"
    cases = found["differences"]
    explained = sum(one["explained_by"] is not None for one in cases)
    yield (
        f"{len(cases)} differ; {explained} of these are explained by rounding: logits within the drift of those "
        "computed alone give the served answer (benchmarks/generation/alone.py).\n"
    )
    if cases:
        heads = ["request", "model", "kind", "first token that differs", "gap of the two best logits", "drift", "runs"]
        rows = [
            [
                str(one["request"]),
                one["model"],
                one["kind"],
                str(one["position"]),
                "" if one["gap"] is None else f"{one['gap']:.2e}",
                f"{one['drift']:.2e}",
                "none" if one["explained_by"] is None else str(one["explained_by"] + 1),
            ]
            for one in cases
        ]
        yield table(heads, rows) + "\n"


def _counts(counts: dict[str, Any]) -> Iterable[str]:
    yield "## Counts of both sides\n"
    client, server = ("answered", "taken back", "late", "failed", "tokens"), list(next(iter(counts.values()))["server"])
    rows = [
        [
            model,
            *(f"{one['client'].get(name, 0)}" for name in client),
            *(f"{one['server'][name]:.0f}" for name in server),
        ]
        for model, one in counts.items()
    ]
    heads = ["model", *(f"client: {name}" for name in client), *(f"server: {name}" for name in server)]
    yield table(heads, rows) + "\n"
    yield "The client's tokens are those that came; of a request that was given up, the server may have made more.\n"


def _memory(memory: dict[str, Any]) -> Iterable[str]:
    yield "## Resident memory, after a quarter of the run\n"
    rows = [
        [name, *(f"{one[key]:.2f}" for key in one)] for name, one in sorted(memory.items()) if one["largest_mb"] > 1
    ]
    yield table(
        ["process", "slope, MB a 1000 requests", "first quartile, MB", "last quartile, MB", "largest, MB"], rows
    )


def _plot(samples: dict[str, Any], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, values in sorted(samples["megabytes"].items()):
        axes.plot(samples["seconds"][: len(values)], values, label=name)
    axes.set(xlabel="seconds", ylabel="resident, MB", title="Memory under load", ylim=(0, None))
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)
