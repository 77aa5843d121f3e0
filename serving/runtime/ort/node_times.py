"""Where a graph's time goes: what each node took, by ONNX Runtime's own profiler."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from attendant.signature import GraphSignature
from serving.runtime.base import Array, Buffer
from serving.runtime.ort.runner import OrtRunner

_WARM_UPS = 2
_LEAST_RUNS, _MOST_RUNS, _ENOUGH_S = 3, 15, 4.0
_SUFFIX = "_kernel_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTime:
    """One node as the runtime executes it, after its own fusions.

    Attributes:
        name: the node's, in the runtime's optimised graph.
        operator: the runtime's name of what it does.
        seconds: median over the runs.
    """

    name: str
    operator: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProfile:
    """What a call of a graph took.

    Attributes:
        seconds: of the whole call, median over the runs; the recording makes it longer than it is without.
        nodes: in the order in which they ran.
    """

    seconds: float
    nodes: tuple[NodeTime, ...]

    @property
    def slowest(self) -> tuple[NodeTime, ...]:
        return tuple(sorted(self.nodes, key=lambda node: -node.seconds))

    @property
    def unattributed(self) -> float:
        """Seconds of a call that no node took: the runtime between them, and its recording."""
        return max(0.0, self.seconds - sum(node.seconds for node in self.nodes))

    @property
    def by_operator(self) -> dict[str, float]:
        """Operator → seconds of all its nodes, slowest first."""
        sums: dict[str, float] = {}
        for node in self.nodes:
            sums[node.operator] = sums.get(node.operator, 0.0) + node.seconds
        return dict(sorted(sums.items(), key=lambda entry: -entry[1]))


def profile(path: Path, signature: GraphSignature, feeds: Mapping[str, Array], sizes: Mapping[str, int]) -> NodeProfile:
    """Run a graph some times on one thread and read what each node took.

    Args:
        path: the ``.onnx`` file.
        signature: what its manifest says of it.
        feeds: input name → array; what the graph updates in place is filled once.
        sizes: the size of each varying axis of ``feeds``.

    Raises:
        ArtefactError: ONNX Runtime cannot load the graph.
        InputError: the arrays do not fit it.
    """
    with TemporaryDirectory() as folder:
        runner = OrtRunner(path, signature, record=Path(folder) / "nodes")
        bound: dict[str, Array | Buffer] = dict(feeds)
        for name in signature.aliases.values():
            bound[name] = buffer = runner.allocate(name, sizes)
            buffer.write(feeds[name])
        began = time.monotonic()
        for count in range(_WARM_UPS + _MOST_RUNS):
            if count >= _WARM_UPS + _LEAST_RUNS and time.monotonic() - began > _ENOUGH_S:
                break
            runner.run(bound)
        events = json.loads(runner.end_record().read_text(encoding="utf-8"))
    calls = [event["dur"] for event in events if event["name"] == "model_run"]
    durations: dict[tuple[str, str, str], list[int]] = {}
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith(_SUFFIX):
            key = event["args"]["node_index"], event["name"].removesuffix(_SUFFIX), event["args"]["op_name"]
            durations.setdefault(key, []).append(event["dur"])
    nodes = (
        NodeTime(name=name, operator=operator, seconds=median(took[_WARM_UPS:]) / 1e6)
        for (_, name, operator), took in durations.items()
    )
    return NodeProfile(seconds=median(calls[_WARM_UPS:]) / 1e6, nodes=tuple(nodes))
