"""A graph that also says how large each activation becomes that a product with a weight reads: max |x| of each run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass
from onnx_ir.tape import Tape

from attendant.signature import TensorSpec
from export.graph.exported_graph import ExportedGraph
from export.passes.quantise.quantise_static import calibrated_values
from serving.runtime.base import Array, Buffer
from serving.runtime.ort.runner import OrtRunner

_PREFIX = "largest."


class ObservedRunner(OrtRunner):
    """A graph on ONNX Runtime, and the largest magnitudes that it has met.

    Attributes:
        largest: activation → one magnitude a run.
    """

    def __init__(self, folder: Path, graph: ExportedGraph) -> None:
        """Load a graph with outputs added; the file with them is written into its folder and removed."""
        model, signature = graph.model.clone(), graph.signature
        names = observe(model)
        self.largest: dict[str, list[float]] = {name: [] for name in names}
        specs = (TensorSpec(name=f"{_PREFIX}{name}", dtype="float32", axes=()) for name in names)
        beside = folder / f"{graph.name}.observed.onnx"  # there, because large weights stay in their file
        try:
            ir.save(model, beside)
            super().__init__(beside, replace(signature, outputs=(*signature.outputs, *specs)))
        finally:
            beside.unlink(missing_ok=True)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Run the graph once; the magnitudes are kept, the other outputs returned."""
        outputs = super().run(feeds)
        for name, magnitudes in self.largest.items():
            magnitudes.append(float(outputs.pop(f"{_PREFIX}{name}").numpy()))
        return outputs


def observe(model: ir.Model) -> list[str]:
    """Add an output for every value that is calibrated; their names, without the prefix."""
    tape, names = Tape(model.graph), list[str]()
    for value in calibrated_values(model.graph):
        magnitude = tape.op("ReduceMax", [tape.op("Abs", [value])], {"keepdims": 0})
        magnitude.name, magnitude.shape = f"{_PREFIX}{value.name}", ir.Shape(())
        magnitude.type = ir.TensorType(ir.DataType.FLOAT)
        model.graph.outputs.append(magnitude)
        names.append(str(value.name))
    TopologicalSortPass()(model)
    return names
