"""One graph of an artefact in memory: what passes, lowering and the manifest work on; files only at both ends."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes.common import CheckerPass

from attendant.errors import ArtefactError, ExportError
from attendant.onnx_file import check_onnx_file
from attendant.signature import GraphSignature
from export.graph.rewrite import RewriteResult

STANDARD_DOMAINS = {"", "ai.onnx"}
ORIGINS = "attendant.weights"
"""The entry of a file's metadata that says which parameters each of its weights was computed from."""
OURS = "attendant."
"""What the names of a node's metadata begin with that passes leave for each other; files keep no other."""
LARGE = 32 * 2**20
"""Bytes of weights from which they stand in a file of their own, which a lowered graph shares; a graph ends at 2 GB."""
_IN_FILE = 256
"""Bytes of a tensor that stays in the graph's file all the same."""
_CHECKED = 1024
"""Bytes of a tensor that onnx's checker may be shown, which is not told where the file beside a graph lies."""
_FEW = 64
"""Numbers up to which a vector counts as no weight: scales, bounds, shapes."""
_WORDS = {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}

Origins = dict[str, list[str]]
"""Name in a graph → the names in PyTorch of the parameters and buffers that it was computed from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedGraph:
    """One graph.

    Attributes:
        model: nodes and weights.
        signature: what it takes and returns.
        origins: where each of its weights comes from.
        passes: what was done to it since it was exported.
    """

    model: ir.Model
    signature: GraphSignature
    origins: Origins
    passes: tuple[RewriteResult, ...] = ()

    @classmethod
    def read(cls, folder: Path, signature: GraphSignature) -> ExportedGraph:
        """Parse the file of a graph; large weights stay in theirs until they are asked for.

        Raises:
            ArtefactError: it is no ONNX graph, or one that nothing should open (:mod:`attendant.onnx_file`).
        """
        path = folder / f"{signature.name}.onnx"
        check_onnx_file(path)
        try:
            model = ir.load(path)
            origins = json.loads(model.metadata_props.get(ORIGINS, "{}"))
        except (OSError, DecodeError, ValueError) as error:
            raise ArtefactError(f"an ONNX graph at {path}", str(error), "export the model again") from error
        return cls(model=model, signature=signature, origins=origins)

    @property
    def name(self) -> str:
        """Of the graph: ``model``, ``encoder``, ``decoder``."""
        return self.signature.name

    def copy(self) -> ExportedGraph:
        """The same graph, of which nothing that a pass changes is shared; weights are."""
        model = self.model.clone()
        for value in _values(model):
            value.type = copy(value.type)  # onnx_ir's clones share it, and a value's dtype is a part of it
        return replace(self, model=model)

    def write(self, folder: Path, file: str = "") -> None:
        """Write the graph, large weights in a file beside it, and where each of its weights comes from.

        Args:
            folder: of the artefact.
            file: the name, if it is not the graph's own.
        """
        # The exporter records the stack trace of every node: larger than small models, and full of machine paths.
        for part in (self.model, self.model.graph, *self.model.graph, *_values(self.model)):
            for name in [name for name in part.metadata_props if not name.startswith(OURS)]:
                del part.metadata_props[name]
            part.doc_string = None
        self.model.metadata_props[ORIGINS] = json.dumps(self.origins)
        initializers = self.model.graph.initializers.values()
        weights = sum(one.nbytes for value in initializers if (one := value.const_value))
        path = folder / (file or f"{self.name}.onnx")
        if weights >= LARGE:  # and from here on the model reads them there
            ir.external_data.unload_from_model(self.model, folder, f"{path.name}.data", size_threshold_bytes=_IN_FILE)
        else:
            ir.external_data.load_to_model(self.model)
        ir.save(self.model, path)

    def weight_types(self) -> dict[str, str]:
        """The element type of each weight, in NumPy's words: without short vectors."""
        tensors = {name: value.const_value for name, value in self.model.graph.initializers.items()}
        return {
            name: _WORDS.get(one.dtype, one.dtype.name.lower())
            for name, one in tensors.items()
            if one is not None and (len(one.shape) > 1 or one.size > _FEW)
        }


def _values(model: ir.Model) -> list[ir.Value]:
    graph = model.graph
    return [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]


def require_signature(model: ir.Model, signature: GraphSignature, integers: bool = False) -> None:
    """Hold a graph to its signature.

    Args:
        model: the graph.
        signature: what it must take and return.
        integers: whether caches may be kept as 8-bit integers instead.

    Raises:
        ExportError: a name, type or axis differs.
    """
    caches = {name for pair in signature.aliases.items() for name in pair} if integers else set()
    specs, values = (*signature.inputs, *signature.outputs), (*model.graph.inputs, *model.graph.outputs)
    for spec, value in zip(specs, values, strict=False):
        dtype = "" if value.dtype is None else str(value.dtype.numpy().name)
        axes = tuple(size if isinstance(size, int) else size.value for size in value.shape or ())
        found = value.name, spec.dtype if dtype == "int8" and spec.name in caches else dtype, axes
        if found != (spec.name, spec.dtype, spec.axes):
            wanted = f"{(spec.name, spec.dtype, spec.axes)} in {signature.name}.onnx"
            raise ExportError(wanted, str(found), _frozen_hint(spec.axes, axes))
    if len(specs) != len(values):
        raise ExportError(f"{len(specs)} inputs and outputs in {signature.name}.onnx", str(len(values)), "export again")


def require_standard(model: ir.Model) -> None:
    """Hold a graph to the standard.

    Raises:
        ExportError: an operator is not of the standard's domain, or used in another way than the standard says.
    """
    importers = sorted({node.domain for node in model.graph} - STANDARD_DOMAINS)
    if importers or model.functions:
        raise ExportError("standard operators only", f"domains {importers}", "lower them in a pass")
    checked = model.clone()
    for value in checked.graph.initializers.values():
        one = value.const_value
        if isinstance(one, ir.ExternalTensor) and one.nbytes <= _CHECKED:
            value.const_value = ir.Tensor(one.numpy(), dtype=one.dtype, name=one.name)
    try:
        CheckerPass(full_check=True)(checked)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ExportError("a graph of the ONNX standard", str(error), "report this graph") from error


def _frozen_hint(wanted: tuple[Any, ...], found: tuple[Any, ...]) -> str:
    pairs = zip(wanted, found, strict=False)
    frozen = [want for want, have in pairs if isinstance(want, str) and isinstance(have, int)]
    if frozen:
        return f"the exporter froze {frozen}: write the model so that no Python number depends on these sizes"
    return "make the module's inputs and outputs follow its signature"
