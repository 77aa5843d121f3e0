"""Weights keep their names from PyTorch to the graph, and tied ones stay one.

The optimiser that the exporter would run folds, renames and merges whatever has a value: a transposed weight becomes
``val_2``, and two norms that happen to be equal become one. While it runs here, weights have no value. What must be
computed from them all the same is computed under a name that says so:

    <parameter>.transposed        where every reader takes the transpose: matrix products read [in, out]
    <name of a value>             put together from several, as recurrent layers need them
"""

import sys

import onnx_ir as ir
import onnxscript.optimizer
import onnxscript.rewriter.onnx_fusions
from onnx_ir.passes.common import LiftConstantsToInitializersPass, RemoveUnusedNodesPass

from export.graph.exported_graph import Origins

TRANSPOSED = ".transposed"
_EXCHANGED = [1, 0]


def optimize(model: ir.Model) -> Origins:
    """Simplify a traced model and compute what follows from weights alone; where each of its weights comes from."""
    weights = {}
    for name, value in list(model.graph.initializers.items()):
        assert value.const_value is not None
        weights[name] = value.const_value
        value.const_value = None
        del model.graph.initializers[name]
        model.graph.inputs.append(value)
    onnxscript.optimizer.optimize_ir(model)
    onnxscript.rewriter.onnx_fusions.fuse(model)
    for value in [value for value in model.graph.inputs if value.name in weights]:
        assert value.name is not None
        model.graph.inputs.remove(value)
        if value.uses():
            value.const_value = weights[value.name]
            model.graph.initializers.add(value)
    transpose_weights(model)
    return _compute(model, {f"{name}{suffix}": [name] for name in weights for suffix in ("", TRANSPOSED)})


def transpose_weights(model: ir.Model) -> int:
    """Store a weight as its readers take it, where all of them take its transpose; how many there were."""
    names = [name for name, value in model.graph.initializers.items() if _is_read_transposed(value)]
    for name in names:
        _transpose(model, model.graph.initializers[name])
    return len(names)


def _is_read_transposed(value: ir.Value) -> bool:
    readers = list(value.consumers())
    return bool(readers) and all(
        reader.op_type == "Transpose" and list(reader.attributes.get_ints("perm", ())) == _EXCHANGED
        for reader in readers
    )


def _transpose(model: ir.Model, value: ir.Value) -> None:
    tensor = value.const_value
    assert tensor is not None and value.name is not None
    name = f"{value.name}{TRANSPOSED}"
    stored = ir.LazyTensor(
        lambda: ir.tensor(tensor.numpy().T.copy()), tensor.dtype, ir.Shape(tensor.shape.numpy()[::-1]), name=name
    )
    weight = ir.Value(name=name, shape=stored.shape, type=ir.TensorType(tensor.dtype), const_value=stored)
    for reader in list(value.consumers()):
        reader.outputs[0].replace_all_uses_with(weight)
        model.graph.remove(reader, safe=True)
    del model.graph.initializers[value.name]
    model.graph.initializers.add(weight)


def _compute(model: ir.Model, origins: Origins) -> Origins:
    known: dict[ir.Value, list[str]] = {
        value: origins.get(name, []) for name, value in model.graph.initializers.items()
    }
    foldable = set()
    for node in model.graph:
        if _follows(node, known):
            read = [name for value in node.inputs if value is not None for name in known[value]]
            for value in node.outputs:
                known[value] = list(dict.fromkeys(read))
            foldable.add(node)
    onnxscript.optimizer.fold_constants(
        model, input_size_limit=sys.maxsize, output_size_limit=sys.maxsize, should_fold=foldable.__contains__
    )
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    RemoveUnusedNodesPass()(model)
    named = {value.name: names for value, names in known.items() if names}
    return {name: named[name] for name in model.graph.initializers if name in named}


def _follows(node: ir.Node, known: dict[ir.Value, list[str]]) -> bool:
    if node.op_type == "Constant":
        return True
    tied = node.op_type == "Transpose" and any(value is not None and value.is_initializer() for value in node.inputs)
    return not tied and bool(node.inputs) and all(value is None or value in known for value in node.inputs)
