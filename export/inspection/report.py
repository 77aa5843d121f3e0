"""An artefact at a glance, in a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attendant.quantities import bytes_text, count_text, seconds_text
from export.inspection.facts import BATCHES, ArtefactFacts, Cache, GraphFacts, Timing

_BAR, _MOST_OPERATORS, _MOST_NODES = 24, 14, 5


def print_facts(facts: ArtefactFacts) -> None:
    """Print each graph's operators with their time, weights by type, slowest nodes and cache; then the files."""
    console = Console()
    console.width = max(console.width, 100)
    manifest = facts.manifest
    console.print(f"[bold]{escape(manifest.name)}[/]: {manifest.family}, {manifest.task}, {manifest.precision}\n")
    for graph in facts.graphs:
        for table in _tables(graph):
            console.print(table)
        if graph.untimed:
            console.print(f"no times of {graph.signature.name}: {graph.untimed}", markup=False)
    rows = [(name, bytes_text(size)) for name, size in facts.files.items()]
    console.print(_table("files", ("file", "size"), rows))


def _tables(graph: GraphFacts) -> Iterable[Table]:
    name = graph.signature.name
    total = f"{sum(graph.operators.values())} nodes, opset {graph.opset}"
    calls = [_call(timing) for timing in graph.timings]
    title = "; ".join([f"{graph.signature.name}: {total}", *calls])
    times = [timing.profile.by_operator for timing in graph.timings]
    names = list(dict.fromkeys([*(times[-1] if times else ()), *graph.operators]))
    shares = times[-1] if times else {name: float(count) for name, count in graph.operators.items()}
    whole = sum(shares.values()) or 1.0
    rows = [
        (
            name,
            str(graph.operators.get(name, "fused")),
            *_seconds(times, name),
            "█" * round(_BAR * (shares.get(name, 0.0) / whole)),
        )
        for name in names[:_MOST_OPERATORS]
    ]
    if names[_MOST_OPERATORS:]:
        rows.append((f"{len(names) - _MOST_OPERATORS} others", *[""] * (len(times) + 2)))
    if times:
        rows.append(("between nodes", "", *(seconds_text(timing.profile.unattributed) for timing in graph.timings), ""))
    yield _table(title, ("operator", "nodes", *(timing.name for timing in graph.timings), ""), rows)
    if graph.timings:
        yield _slowest(name, graph.timings[-1])
    types = [
        (dtype, str(tensors), count_text(numbers), bytes_text(size))
        for dtype, (tensors, numbers, size) in graph.by_type.items()
    ]
    yield _table(f"{name}: weights by type", ("type", "tensors", "numbers", "bytes"), types)
    if graph.cache is not None:
        yield _cache(name, graph.cache)


def _call(timing: Timing) -> str:
    sizes = ", ".join(f"{symbol} {size}" for symbol, size in timing.sizes.items())
    return f"{timing.name} {seconds_text(timing.profile.seconds)} ({sizes})"


def _seconds(times: Sequence[dict[str, float]], name: str) -> list[str]:
    return [seconds_text(one[name]) if name in one else "" for one in times]


def _slowest(name: str, timing: Timing) -> Table:
    slowest = timing.profile.slowest[:_MOST_NODES]
    rows = [(escape(node.name), node.operator, seconds_text(node.seconds)) for node in slowest]
    return _table(f"{name}, {timing.name}: slowest nodes", ("node", "operator", "time"), rows)


def _cache(name: str, cache: Cache) -> Table:
    title = f"{name}: cache = {cache.formula}" + (f", M = {cache.positions}" if cache.positions else "")
    capacities = cache.capacities or (None,)
    columns = ("B", *("bytes" if m is None else f"M = {m}" for m in capacities))
    rows = [(str(batch), *(bytes_text(cache.nbytes(batch, m)) for m in capacities)) for batch in BATCHES]
    return _table(title, columns, rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", min_width=min(len(title), 98))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 or column in {"", "operator"} else "right")
    for row in rows:
        table.add_row(*row)
    return table
