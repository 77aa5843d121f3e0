"""What it saves to keep a part of a graph in float32 while the rest becomes narrow: the record of fp16 and bf16.

Every candidate of ``export/passes/quantise/sensitive_places.py`` is given up alone, and the drift compared with that
of a graph in which all are kept: where one part dominates, keeping only another shows nothing. Drift is the error of
the last graph's output against float64 over the cases of the parity check: the root mean square of each case's
largest. Kernels differ from runtime to runtime, so none is measured: the graphs run in float32 and round wherever the
narrow type does (``export/passes/quantise/widen_arithmetic.py``). Writes ``export/passes/quantise/sensitivity.json``,
from which the passes decide.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from attendant.manifest import Manifest
from attendant.tasks import TASKS, resolve
from benchmarks.harness.report import Benchmark, scratch_folder, table
from benchmarks.harness.servers import export_models
from export.parity.check import spreads_of
from export.parity.eager import eager_runners
from export.parity.parity import YARDSTICK
from export.parity.task_checks import REFERENCE, RUNTIME, Runners
from export.passes.quantise.lower_precision import LowerPrecision
from export.passes.quantise.sensitive_places import PLACES, RECORD
from export.passes.quantise.widen_arithmetic import WidenArithmetic
from export.precision.precisions import Precision, precision_named, signatures_in
from models.checkpoints.place import shipped_names
from models.checkpoints.resolve import checkpoint_named
from serving.runtime.base import Runner
from serving.runtime.ort.runner import OrtRunner

BENCHMARK = Benchmark("sensitivity", "What a part in float32 saves", __doc__)
PRESETS = (
    *("gpt2-tiny", "qwen3-tiny", "llama-tiny", "bert-tiny", "t5-v1.1-tiny", "swin-v2-tiny"),
    "show-attend-tell-tiny",
)
TYPES = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}


def main() -> None:
    parser = BENCHMARK.parser(scratch=True)
    parser.add_argument("--record", type=Path, default=RECORD, help="the file that the passes decide from")
    parser.add_argument("--models", nargs="+", default=[*shipped_names(), *PRESETS], help="checkpoints and presets")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with scratch_folder(args) as scratch:
        folders = export_models(args.models, scratch / "artefacts")
        record = {dtype.name.lower(): measure(precision_named(name), dtype, folders) for name, dtype in TYPES.items()}
    args.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    rows = [
        [dtype, place, f"{np.exp(np.mean(np.log(list(of_model.values())))):.3f}"]
        for dtype, found in record.items()
        for place, of_model in found["ratios"].items()
        if of_model
    ]
    head = "Geometric mean over models: the drift with all parts kept, over that with all but one."
    BENCHMARK.publish(args, [f"{head}\n", table(["type", "part", "ratio"], rows)], record)


def measure(precision: Precision, dtype: ir.DataType, folders: Mapping[str, Path]) -> dict[str, Any]:
    """The drift of each model with all candidates kept, with none, and the first's ratio to that with all but one."""
    drift: dict[str, tuple[float, ...]] = {}
    ratios: dict[str, dict[str, float]] = {place: {} for place in PLACES}
    for name, folder in folders.items():
        model = Drift(folder, precision, dtype)
        every = model.with_kept(set(PLACES))
        drift[name] = tuple(float(f"{value:.3g}") for value in (every, model.with_kept(set())))
        for place in filter(model.holds, PLACES):
            ratios[place][name] = round(every / model.with_kept(PLACES.keys() - {place}), 3)
        shown = {place: one[name] for place, one in ratios.items() if name in one}
        sys.stderr.write(f"{precision.name} {name}: {shown}\n")
    return {"drift": drift, "ratios": ratios}


class Drift:
    """The error of one model in one precision, for any candidate that is kept."""

    def __init__(self, folder: Path, precision: Precision, dtype: ir.DataType) -> None:
        self.folder, self.dtype, self.manifest = folder, dtype, Manifest.read(folder)
        self.signatures = signatures_in(precision, self.manifest.graphs)
        self.checkpoint = checkpoint_named(self.manifest.source)
        graphs = self.checkpoint.graphs()
        self.runners: Runners = {
            REFERENCE: dict(eager_runners(graphs, torch.float64)),
            YARDSTICK: dict(eager_runners(graphs, torch.float32)),
        }

    def holds(self, place: str) -> bool:
        """Whether any graph has operators of a candidate."""
        models = (ir.load(self.folder / f"{one.name}.onnx") for one in self.manifest.graphs)
        return any(True for model in models for _ in PLACES[place](model.graph))

    def with_kept(self, places: set[str]) -> float:
        """Relative to the largest value of the reference."""
        with tempfile.TemporaryDirectory() as folder:
            runners: dict[str, Runner] = {
                one.name: self._runner(one.name, places, Path(folder)) for one in self.manifest.graphs
            }
            measured = resolve(TASKS[self.manifest.task].parity)(
                self.checkpoint, {**self.runners, RUNTIME: runners}, spreads_of(self.manifest)
            )
            last = [one for one in measured if one.graph == self.manifest.graphs[-1].name and "eager" not in one.level]
        return float(np.sqrt(np.mean([one.error**2 for one in last])) / max(one.scale for one in last))

    def _runner(self, graph: str, places: set[str], folder: Path) -> OrtRunner:
        path = folder / f"{graph}.onnx"
        model = ir.load(self.folder / path.name)
        (signature,) = (one for one in self.signatures if one.name == graph)
        specs = (*signature.inputs, *signature.outputs)
        narrow = {spec.name for spec in specs if spec.dtype == self.dtype.name.lower()}
        LowerPrecision(
            self.dtype, narrow, lambda graph: {node: place for place in places for node in PLACES[place](graph)}
        )(model)
        WidenArithmetic(self.dtype)(model)
        ir.save(model, path)
        return OrtRunner(path, self.manifest.graph(graph))


if __name__ == "__main__":
    main()
