"""An artefact at a glance, as one page of HTML that needs nothing but itself."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from attendant.errors import OutputError
from attendant.markup import Markup, bar, code, colours, folded, keyed, safe, table
from attendant.output_files import write_output
from attendant.quantities import bytes_text, count_text, seconds_text
from attendant.signature import TensorSpec
from export.inspection.facts import BATCHES, ArtefactFacts, Cache, GraphFacts, Timing, Weight

STYLE = Path(__file__).with_name("page.css")
_MOST_WEIGHTS, _MOST_NODES, _MOST_ROWS = 200, 20, 10
_BETWEEN = "between nodes"


def write_page(facts: ArtefactFacts, path: Path) -> None:
    """Write the page.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        write_output(path, page(facts))
    except OSError as error:
        raise OutputError(f"a place to write the page at {path}", str(error), "choose another --html") from error


def page(facts: ArtefactFacts) -> str:
    title = safe(facts.manifest.name)
    # An operator has one colour on the whole page: those with the most time have one of their own.
    times: defaultdict[str, float] = defaultdict(float)
    for timing in (timing for graph in facts.graphs for timing in graph.timings):
        for operator, seconds in timing.profile.by_operator.items():
            times[operator] += seconds / timing.profile.seconds
    colour = colours(sorted(times, key=lambda operator: -times[operator]))
    graphs = "".join(_graph(graph, colour) for graph in facts.graphs)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE.read_text(encoding='utf-8')}</style></head><body><main>"
        f"{_header(facts)}{graphs}{_files(facts)}{_foot(facts)}</main></body></html>\n"
    )


def _header(facts: ArtefactFacts) -> str:
    manifest = facts.manifest
    weights = [weight for graph in facts.graphs for weight in graph.weights]
    figures = {
        "weights, all graphs": count_text(sum(weight.count for weight in weights)),
        "their bytes": bytes_text(sum(weight.nbytes for weight in weights)),
        "nodes": f"{sum(sum(graph.operators.values()) for graph in facts.graphs):,}",
        "files": bytes_text(sum(facts.files.values())),
    }
    for graph in facts.graphs:
        if graph.cache is not None:
            figures["cache a sequence"] = bytes_text(graph.cache.nbytes(1))
        for timing in graph.timings:
            figures[f"{graph.signature.name}, {timing.name}"] = seconds_text(timing.profile.seconds)
    tiles = "".join(f"<div><dt>{safe(name)}</dt><dd>{safe(value)}</dd></div>" for name, value in figures.items())
    return (
        f"<header><h1>{safe(manifest.name)}</h1>"
        f'<p class="quiet">{safe(manifest.family)} · {safe(manifest.task)} · {safe(manifest.precision)} · '
        f"made from {code(manifest.source)}</p>"
        f'<dl class="figures">{tiles}</dl></header>'
    )


def _graph(graph: GraphFacts, colour: dict[str, str]) -> str:
    name, nodes = graph.signature.name, sum(graph.operators.values())
    cards = [_time(name, timing, colour) for timing in graph.timings]
    if graph.untimed:
        cards.append(f'<div class="card wide"><h3>No times</h3><p>{safe(graph.untimed)}</p></div>')
    kept = _cache(graph.cache) if graph.cache is not None else ""
    most = max(graph.operators.values(), default=1)
    rows = [(operator, count, bar(count / most, "k0")) for operator, count in graph.operators.items()]
    counts = folded("nodes in the file", ("operator", "nodes", ""), rows, (1,), _MOST_ROWS)
    cards += [
        f'<div class="card"><h3>Operators</h3>{counts}</div>',
        f'<div class="column">{_types(graph)}{kept}</div>',
        _tensors(graph),
    ]
    return (
        f'<section aria-labelledby="graph-{safe(name)}"><h2 id="graph-{safe(name)}">{safe(name)}</h2>'
        f'<p class="quiet">{nodes} nodes of {len(graph.operators)} operators, opset {graph.opset}</p>'
        f'<div class="cards">{"".join(cards)}</div></section>'
    )


def _time(name: str, timing: Timing, colour: dict[str, str]) -> str:
    profile = timing.profile
    sizes = ", ".join(f"{symbol} {size}" for symbol, size in timing.sizes.items())
    shares = sorted([*profile.by_operator.items(), (_BETWEEN, profile.unattributed)], key=lambda entry: -entry[1])
    rows = []
    for operator, took in shares:
        part, key = took / profile.seconds, colour.get(operator, "none")
        rows.append((keyed(operator, key), seconds_text(took), f"{part:.1%}", bar(part, key)))
    slowest = [(code(node.name), node.operator, seconds_text(node.seconds)) for node in profile.slowest[:_MOST_NODES]]
    sums = folded(
        "operators as the runtime executes them; between nodes, the runtime itself and its recording",
        ("operator", "time", "share", ""),
        rows,
        (1, 2),
        _MOST_ROWS,
    )
    return (
        f'<div class="card wide"><h3>Time of a {safe(timing.name)}</h3>'
        f"<figure><figcaption><b>{seconds_text(profile.seconds)}</b> on one thread, {safe(sizes)}; "
        "each node in the order in which it runs, as wide as its time</figcaption>"
        f"{_strip(f'{name}, {timing.name}', timing, colour)}</figure>{sums}"
        f"<details><summary>Slowest nodes</summary>"
        f"{table('median of the runs', ('node', 'operator', 'time'), slowest, (2,))}</details></div>"
    )


def _strip(label: str, timing: Timing, colour: dict[str, str]) -> str:
    rects, x = [], 0.0
    for node in timing.profile.nodes:
        width = 1000 * node.seconds / timing.profile.seconds
        told = f"{safe(node.operator)} {safe(node.name)}: {seconds_text(node.seconds)}"
        place = f'x="{x:.2f}" y="0" width="{width:.2f}" height="10"'
        rects.append(f'<rect class="{colour[node.operator]}" {place}><title>{told}</title></rect>')
        x += width
    text = f"{safe(label)}: {len(rects)} nodes in order; the table below has the sums"
    return (
        f'<svg class="strip" role="img" aria-label="{text}" viewBox="0 0 1000 10" preserveAspectRatio="none">'
        f"{''.join(rects)}</svg>"
    )


def _types(graph: GraphFacts) -> str:
    sums = graph.by_type
    colour, total = colours(sums), sum(size for *_, size in sums.values()) or 1
    stack = "".join(
        f'<span class="{colour[dtype]}" style="flex:{size / total:.4f}"></span>' for dtype, (*_, size) in sums.items()
    )
    rows = [
        (keyed(dtype, colour[dtype]), tensors, count_text(numbers), bytes_text(size), f"{size / total:.1%}")
        for dtype, (tensors, numbers, size) in sums.items()
    ]
    columns, count = ("type", "tensors", "numbers", "bytes", "share"), len(graph.weights)
    summary = f"The {_MOST_WEIGHTS} largest of {count}" if count > _MOST_WEIGHTS else "Every tensor"
    return (
        f'<div class="card"><h3>Precision</h3><div class="stack" aria-hidden="true">{stack}</div>'
        f"{table('weights and constants by element type', columns, rows, (1, 2, 3, 4))}"
        f"<details><summary>{summary}</summary>{_weights(graph.weights, colour)}</details></div>"
    )


def _weights(weights: Iterable[Weight], colour: dict[str, str]) -> Markup:
    rows = [
        (code(weight.name), keyed(weight.dtype, colour[weight.dtype]), list(weight.shape), bytes_text(weight.nbytes))
        for weight in list(weights)[:_MOST_WEIGHTS]
    ]
    return table("largest first", ("tensor", "type", "shape", "bytes"), rows, (3,))


def _cache(cache: Cache) -> str:
    capacities = cache.capacities or (None,)
    columns = ("B", *("bytes" if m is None else f"M = {m}" for m in capacities))
    rows = [(batch, *(bytes_text(cache.nbytes(batch, m)) for m in capacities)) for batch in BATCHES]
    note = f"B sequences of M positions; this artefact has M = {cache.positions}" if cache.positions else "B sequences"
    return (
        f'<div class="card"><h3>Cache</h3><p>{code(cache.formula)}</p>'
        f"{table(note, columns, rows, range(1, len(columns)))}</div>"
    )


def _tensors(graph: GraphFacts) -> str:
    signature = graph.signature
    rows = [*_specs(signature.inputs, "in", {}), *_specs(signature.outputs, "out", signature.aliases)]
    columns = ("tensor", "", "type", "axes", "written into")
    return (
        f'<div class="card wide"><h3>Inputs and outputs</h3><details><summary>{len(signature.inputs)} in, '
        f"{len(signature.outputs)} out</summary>{table('as the manifest states them', columns, rows)}</details></div>"
    )


def _specs(specs: Iterable[TensorSpec], way: str, aliases: dict[str, str]) -> list[tuple[object, ...]]:
    return [
        (
            code(spec.name),
            way,
            spec.dtype,
            spec.describe_axes(),
            code(aliases[spec.name]) if spec.name in aliases else "",
        )
        for spec in specs
    ]


def _files(facts: ArtefactFacts) -> str:
    most = max(facts.files.values(), default=1)
    rows = [(code(name), bytes_text(size), bar(size / most, "k0")) for name, size in facts.files.items()]
    listed = table("with what the manifest names", ("file", "size", ""), rows, (1,))
    return f'<section aria-labelledby="files"><h2 id="files">Files</h2><div class="card">{listed}</div></section>'


def _foot(facts: ArtefactFacts) -> str:
    versions = ", ".join(f"{package} {version}" for package, version in facts.manifest.versions.items())
    return (
        f"<footer>Made by {code('attendant inspect')}. Exported with {safe(versions)}. Times are medians by "
        "ONNX Runtime's own profiler, on one thread of the machine that made this page; recording makes calls longer."
        "</footer>"
    )
