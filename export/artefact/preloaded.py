"""What a process that exports a graph has read before it is forked: our modules, and torch's translations."""

from export.artefact.onnx_artefact import export_graph
from export.graph.onnx_graph import read_translations

__all__ = ["export_graph"]

read_translations()
