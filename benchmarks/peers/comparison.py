"""A comparison with peers: its command line, the run over shapes, and the page."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness.machine import ROOT, hardware, versions
from benchmarks.harness.report import RESULTS, Benchmark, table
from benchmarks.harness.rounds import counted_values, quiet_values, show_spread, spread
from benchmarks.peers.processes import interpreter
from benchmarks.peers.registry import OURS, PEERS, Peer, ours
from benchmarks.peers.right_answers import HEADS as RIGHT_HEADS
from benchmarks.peers.right_answers import right_answers
from benchmarks.peers.rounds import Plan, Record, Request, Rows, Samples, measure
from benchmarks.peers.shapes import SHAPES, Kind, Shape

PLACE = ROOT / "build" / "benchmarks"
NOTES = """One process a peer, round-robin, fresh random inputs for every sample, the same random weights for all.
Median (first … third quartile). Quiet samples: the fewest of any request … all that were taken of the one with
most; a sample is quiet where other processes used less than 10 % of the processors. Random weights say nothing
about accuracy: where tokens differ, the logits are nearly flat, and the precision is low. A question mark:
fewer than two samples were quiet, and the figure is not to be relied on."""
REFERENCE = "transformers float32"
RIGHT = """Of shipped checkpoints, on held-out data, in the same precisions and by the same runtimes."""
RATIOS = """What each of ours is to the best peer of that column, by medians of this run: above 1 it is ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What is said of each peer.

    Attributes:
        head: of the column.
        read: a record's values.
        form: of a value.
        is_rate: whether more is better.
    """

    head: str
    read: Callable[[Record], Rows]
    form: str = ".1f"
    is_rate: bool = False

    def show(self, record: Record) -> str:
        """Median and quartiles."""
        return show_spread(self.read(record), form=self.form)

    def show_ratio(self, record: Record, peers: Mapping[str, Record]) -> str:
        """To the best of the peers; nothing where there is none."""
        if not peers:
            return ""
        medians = {name: spread(self.read(one))[1] for name, one in peers.items()}
        best = (max if self.is_rate else min)(medians, key=medians.__getitem__)
        own = spread(self.read(record))[1]
        marks = {counted_values(self.read(one))[1] for one in (record, peers[best])}
        ratio = own / medians[best] if self.is_rate else medians[best] / own
        return f"{ratio:.2f}{max(marks)} ({best})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Of one kind of work."""

    benchmark: Benchmark
    kinds: tuple[Kind, ...]
    requests: dict[str, Request]
    columns: list[Column]
    runtimes: tuple[str, ...]

    def run(self) -> None:
        """Make what is missing, measure, and write the page."""
        shapes = [name for name, shape in SHAPES.items() if shape.kind in self.kinds]
        parser = self.benchmark.parser(rounds=7, patience_s=20.0)
        parser.set_defaults(out=RESULTS)
        parser.add_argument("--shapes", nargs="+", choices=shapes, default=shapes)
        parser.set_defaults(prompts=None)
        if "decoder" in self.kinds:
            parser.add_argument("--prompts", nargs="+", type=int, help="tokens of each prompt of a decoder")
        parser.add_argument("--peers", nargs="+", default=[""], help="words; peers whose names hold one of them")
        parser.add_argument(
            "--ours", nargs="+", default=[""], help='artefacts: words for export onnx, "--precision int8"'
        )
        parser.add_argument("--runtimes", nargs="+", default=list(self.runtimes), help="that execute them")
        parser.add_argument("--minutes", type=float, default=60.0, help="after which nothing more is begun")
        parser.add_argument("--threads", type=int, default=2)
        parser.add_argument(
            "--quick", action="store_true", help="two samples each, on a busy machine too; the page stays in build/"
        )
        parser.add_argument("--fresh", action="store_true", help="forget the samples of runs before")
        args = parser.parse_args()
        PLACE.mkdir(parents=True, exist_ok=True)
        path: Path = PLACE / f"{self.benchmark.name}{'-quick' if args.quick else ''}-samples.json"
        if args.fresh:
            path.unlink(missing_ok=True)
        samples = Samples(path)
        plan = Plan(
            requests=self.requests,
            rounds=2 if args.quick else args.rounds,
            threads=args.threads,
            deadline=time.monotonic() + 60 * args.minutes,
            patience_s=0.0 if args.quick else args.patience,
        )
        environments, timed = {"ours"}, set[Kind]()
        chosen = [
            replace(SHAPES[name], prompt=prompt)
            for name in args.shapes
            for prompt in ((SHAPES[name].kind == "decoder" and args.prompts) or [SHAPES[name].prompt])
        ]
        for shape in chosen:
            peers = choose_peers(shape, args.ours, args.runtimes, args.peers)
            environments |= {peer.environment for peer in peers}
            timed |= {peer.kind for peer in peers if peer.environment == OURS}
            measure(shape, peers, plan, samples, PLACE / shape.name)
        right = [
            row for kind in sorted(timed) for row in right_answers(kind, args.ours, args.runtimes, args.threads, PLACE)
        ]
        if args.quick:
            args.out = PLACE
        machine = hardware() | {"threads": str(args.threads)}
        for name in sorted(environments):
            machine[name] = ", ".join(f"{key} {value}" for key, value in versions(interpreter(name)).items())
        values = {shape.title: samples.values[shape.title] for shape in chosen}
        self.benchmark.publish(args, self.page(values, right), {"samples": values, "right": right}, machine)

    def page(self, values: Mapping[str, Mapping[str, Record]], right: list[list[str]]) -> Iterator[str]:
        yield f"{NOTES}\n"
        yield f"## Ratios\n\n{RATIOS}\n\n{table(['shape', 'ours', *self._heads], self._ratios(values))}\n"
        heads = ["peer", *self._heads, "quiet samples", "peak MB", "load s", f"answer as {REFERENCE}"]
        for shape, records in values.items():
            rows = []
            for name, record in records.items():
                if not is_measured(record):
                    rows.append([name, record.get("failed", "not measured in time"), *[""] * (len(heads) - 2)])
                    continue
                samples = record["samples"].values()
                calm = f"{min(len(quiet_values(one)) for one in samples)} … {max(len(one) for one in samples)}"
                more = [calm, f"{record['peak_mb']:.0f}", f"{record['load_s']:.1f}"]
                cells = [column.show(record) for column in self.columns]
                rows.append([name, *cells, *more, agreement(record, records.get(REFERENCE))])
            yield f"## {shape}\n\n{table(heads, rows)}\n"

        if right:
            yield f"## Right answers\n\n{RIGHT}\n\n{table(RIGHT_HEADS, right)}\n"

    @property
    def _heads(self) -> list[str]:
        return [column.head for column in self.columns]

    def _ratios(self, values: Mapping[str, Mapping[str, Record]]) -> Iterator[list[str]]:
        for shape, records in values.items():
            measured = {name: record for name, record in records.items() if is_measured(record)}
            peers = {name: record for name, record in measured.items() if not name.startswith(OURS)}
            for name, record in measured.items():
                if name not in peers:
                    yield [shape, name, *(column.show_ratio(record, peers) for column in self.columns)]


def is_measured(record: Record) -> bool:
    """Whether each request of a record has a sample, and the peer did not fail."""
    samples = record["samples"].values()
    return "failed" not in record and bool(samples) and all(samples)


def choose_peers(shape: Shape, artefacts: list[str], runtimes: list[str], words: list[str]) -> list[Peer]:
    own = [ours(shape.kind, tuple(artefact.split()), runtime) for artefact in artefacts for runtime in runtimes]
    fitting = [peer for peer in PEERS if peer.kind == shape.kind and shape.name not in peer.not_for]
    return [peer for peer in [*fitting, *own] if any(word in peer.name for word in words)]


def agreement(record: Record, reference: Record | None) -> str:
    """How far an answer to one fixed request is that of transformers in float32."""
    if reference is None or "answer" not in record or "answer" not in reference:
        return ""
    found, expected = record["answer"], reference["answer"]
    if isinstance(expected[0], list):
        same = [a == b for one, other in zip(found, expected, strict=True) for a, b in zip(one, other, strict=True)]
        return f"{sum(same)} of {len(same)} tokens"
    error = max(abs(a - b) for a, b in zip(found, expected, strict=True)) / max(map(abs, expected))
    return f"{error:.0e}"
