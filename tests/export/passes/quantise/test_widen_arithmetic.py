import numpy as np
import onnx_ir as ir
import pytest

from export.passes.quantise.lower_precision import LowerPrecision
from export.passes.quantise.widen_arithmetic import WidenArithmetic
from serving.runtime.base import numpy_dtype
from tests.export.passes.quantise.test_lower_precision import BRAIN, HALF, model_of, operators

WEIGHTS = "float[4,4] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7}"


def run(model, x):
    import onnxruntime as ort

    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_results_are_rounded_where_the_narrow_graph_rounds(dtype):
    model = model_of("a = MatMul(x, w) b = Relu(a) y = Exp(b)", WEIGHTS)
    LowerPrecision(dtype, {"x"}, operators("Exp"))(model)
    assert WidenArithmetic(dtype)(model).fired == 2
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

    def rounded(array):
        return array.astype(dtype.numpy()).astype(np.float32)

    weights = np.float32(ir.convenience.get_const_tensor(model.graph.initializers["w"]).numpy())
    wanted = np.exp(np.maximum(rounded(rounded(x) @ weights), 0))
    np.testing.assert_allclose(run(model, x), wanted, rtol=1e-6)
    assert model.graph.inputs[0].dtype.numpy() == numpy_dtype("float32")


def test_outputs_of_the_narrow_type_become_float32_and_keep_their_names():
    model = model_of("y = MatMul(x, w)", WEIGHTS)
    LowerPrecision(BRAIN, {"x", "y"}, operators())(model)
    WidenArithmetic(BRAIN)(model)
    assert [(value.name, value.dtype) for value in model.graph.outputs] == [("y", ir.DataType.FLOAT)]


def test_a_second_run_fires_nothing():
    model = model_of("a = MatMul(x, w) y = Exp(a)", WEIGHTS)
    LowerPrecision(BRAIN, (), operators())(model)
    assert WidenArithmetic(BRAIN)(model).fired == 2
    assert WidenArithmetic(BRAIN)(model).fired == 0
