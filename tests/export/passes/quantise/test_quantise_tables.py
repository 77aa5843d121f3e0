import numpy as np
import onnx_ir as ir
import pytest

from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from export.passes.quantise.quantise_tables import QuantiseTables
from tests.export.passes.layers import activation, constant, session

WORDS, WIDTH = 50, 32


def lookup(table, computed=False):
    """``table[ids]``, of ids or of ids and one."""
    ids = ir.Value(name="ids", shape=ir.Shape(["batch", "steps"]), type=ir.TensorType(ir.DataType.INT64))
    shape = ir.Shape(["batch", "steps", table.shape[1]])
    nodes = [ir.node("Add", [ids, constant("one", np.array(1))])] if computed else []
    found = ir.Value(name="found", shape=shape, type=ir.TensorType(ir.DataType.FLOAT))
    weight = constant("table", table)
    nodes.append(ir.node("Gather", [weight, nodes[0].outputs[0] if computed else ids], outputs=[found]))
    initializers = [weight, *(value for node in nodes[:-1] for value in node.inputs[1:])]
    return ir.Model(
        ir.Graph([ids], [found], nodes=nodes, initializers=initializers, opset_imports={"": 24}), ir_version=11
    )


@pytest.fixture
def table():
    return np.random.default_rng(2).standard_normal((WORDS, WIDTH)).astype(np.float32)


def test_a_row_is_found_within_half_a_step_of_its_own(table):
    model, ids = lookup(table), np.arange(WORDS).reshape(5, 10)
    outcome = QuantiseTables()(model)
    assert (outcome.fired, outcome.refused) == (1, [])
    assert {name: value.dtype for name, value in model.graph.initializers.items() if name.startswith("table")} == {
        "table.int8": ir.DataType.INT8,
        "table.row_scale": ir.DataType.FLOAT,
    }
    (found,) = session(model).run(None, {"ids": ids})
    step = np.abs(table).max(1) / 127
    assert (np.abs(found.reshape(table.shape) - table) <= step[:, None] * 0.5001).all()


def test_a_second_run_fires_nothing(table):
    model = lookup(table)
    QuantiseTables()(model)
    before = [node.op_type for node in model.graph]
    assert QuantiseTables()(model).fired == 0
    assert [node.op_type for node in model.graph] == before


def test_a_table_that_is_looked_up_at_computed_places_stays(table):
    model = lookup(table, computed=True)
    assert QuantiseTables()(model).fired == 0
    assert "table" in model.graph.initializers


def test_a_narrow_table_is_refused(table):
    outcome = QuantiseTables()(lookup(table[:, :4]))
    assert (outcome.fired, outcome.refused) == (0, ["table: its rows have 4 numbers, less than 8"])


def test_of_a_translator_only_the_encoders_table_is_left_to_it(tiny_translator):
    fired = {}
    for name in ("encoder", "decoder"):
        model = ir.load(tiny_translator / f"{name}.onnx")
        QuantiseDynamic()(model)
        fired[name] = QuantiseTables()(model).fired
        assert not [
            name
            for name, value in model.graph.initializers.items()
            if value.dtype == ir.DataType.FLOAT and "embedding" in name and len(value.shape) > 1
        ]
    assert fired == {"encoder": 1, "decoder": 0}, "the decoder's is its head's weight"


def test_a_table_that_is_multiplied_as_it_is_too_has_a_scale_a_row_for_its_lookups_alone(table):
    model, (ids, x) = lookup(table), (np.arange(WORDS)[None], np.eye(WORDS, dtype=np.float32)[None])
    mixed = ir.node(
        "MatMul", [activation("x", WORDS), model.graph.initializers["table"]], outputs=[activation("mixed", WIDTH)]
    )
    model.graph.append(mixed)
    model.graph.inputs.append(mixed.inputs[0])
    model.graph.outputs.append(mixed.outputs[0])
    assert [QuantiseDynamic()(model).fired, QuantiseTables()(model).fired] == [1, 1]
    for found, axis in zip(session(model).run(None, {"ids": ids, "x": x}), (1, 0), strict=True):
        step = np.abs(table).max(axis, keepdims=True) / 127
        assert (np.abs(found[0] - table) <= step / 2 * 1.0001 + 1e-6).all()
