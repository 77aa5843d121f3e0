"""A session of one of our operators."""

import onnxruntime as ort
from onnx import helper

from serving.runtime.ort.kernels.library import kernels


def session_of(operator, inputs, outputs, constants, threads=1, behind=(), **attributes):
    """The operator with inputs and outputs, each ``name: (element type, sizes)``, and constants behind the inputs.

    Some inputs may stand behind the constants; a constant without a name is left out.
    """
    before = [name for name in inputs if name not in behind]
    names = [*before, *(one.name for one in constants), *(name for name in inputs if name in behind)]
    constants = [one for one in constants if one.name]
    node = helper.make_node(operator, names, list(outputs), domain="attendant", **attributes)
    typed = [
        [helper.make_tensor_value_info(name, *about) for name, about in values.items()] for values in (inputs, outputs)
    ]
    graph = helper.make_graph([node], "g", *typed, constants)
    domains = [helper.make_opsetid("", 24), helper.make_opsetid("attendant", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=11)
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(kernels()))
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options)
