"""What a soak found, as Markdown."""

from collections.abc import Iterator
from typing import Any

from benchmarks.harness.report import table


def report(found: dict[str, Any]) -> Iterator[str]:
    yield "**Nothing is wrong.**\n" if not found["wrong"] else "**Wrong:** " + "; ".join(found["wrong"]) + "\n"
    load, cases, counts, memory = (found[part] for part in ("load", "differences", "counts", "memory"))
    yield (
        f"## Load\n\n{load['requests']} requests in {load['seconds']:.0f} s (planned: {load['rate']:g} a second, "
        f"Poisson); {load['most_in_flight']} in flight at most of {load['max_concurrency']} allowed, "
        f"{load['held_back']} waited for that bound. {load['responses']} responses with {load['tokens']} tokens came, "
        f"{load['tokens'] / load['seconds']:.0f} tokens a second. Other "
        f"processes used {load['others']:.0%} of the processors meanwhile.\n"
    )
    for name in ("models", "kinds", "outcomes"):
        yield f"- {name}: " + ", ".join(f"{key} {count}" for key, count in sorted(load[name].items()))
    for error, count in load["errors"].items():
        yield f"- {count} failed: {error}"
    for name, meaning in (
        ("first_response_ms", "first response"),
        ("slot_freed_ms", "from a cancelling to the end of its stream, when its slots are free"),
    ):
        yield f"- {meaning}: " + ", ".join(f"{key} {value:.1f} ms" for key, value in load[name].items())
    compared = ", ".join(f"{count} {name}" for name, count in sorted(found["compared"].items()))
    yield f"\n## Answers beside the same request alone\n\nCompared in {found['compared_s']:.0f} s: {compared}.\n"
    yield (
        f"{len(cases)} differ; {sum(one['explained_by'] is not None for one in cases)} of these are explained by "
        "rounding: logits within the drift of those computed alone give the served answer "
        "(benchmarks/soak/reference.py).\n"
    )
    if cases:
        heads = ["request", "model", "kind", "first token that differs", "gap of the two best logits", "drift", "runs"]
        rows = []
        for one in cases:
            gap = "" if one["gap"] is None else f"{one['gap']:.2e}"
            runs = "none" if one["explained_by"] is None else one["explained_by"] + 1
            rows.append([one["request"], one["model"], one["kind"], one["position"], gap, f"{one['drift']:.2e}", runs])
        yield table(heads, rows) + "\n"
    yield "## Counts of both sides\n"
    client = ("completed", "cancelled", "deadline exceeded", "failed", "tokens")
    server = list(next(iter(counts.values()))["server"])
    heads = ["model", *(f"client: {name}" for name in client), *(f"server: {name}" for name in server)]
    yield table(
        heads,
        [
            [
                model,
                *(one["client"].get(name, 0) for name in client),
                *(f"{one['server'][name]:.0f}" for name in server),
            ]
            for model, one in counts.items()
        ],
    )
    yield "\nThe client's tokens are those that came; of a request that was cancelled, the server may have made more.\n"
    yield "## Resident memory, after a quarter of the run\n"
    heads = ["process", "slope, MB a 1000 requests", "first quartile, MB", "last quartile, MB", "largest, MB"]
    shown = {name: one for name, one in sorted(memory.items()) if one["largest_mb"] > 1}
    yield table(heads, [[name, *(f"{value:.2f}" for value in one.values())] for name, one in shown.items()])
