import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attendant.errors import ArtefactError, ConfigError, InputError
from attendant.records import record_from_json, record_to_json
from attendant.signature import Axis, GraphSignature, TensorSpec
from tests.models.signatures import signatures

PIXELS = TensorSpec(name="pixels", dtype="float32", axes=("batch", 1, 8, "side"))


@pytest.mark.parametrize("shape", [(1, 1, 8, 1), (7, 1, 8, 3)], ids=str)
def test_a_varying_axis_admits_every_size(shape):
    PIXELS.check("float32", shape)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float64", (1, 1, 8, 8)),
        ("float32", (1, 8, 8)),
        ("float32", (1, 1, 8, 8, 1)),
        ("float32", (1, 2, 8, 8)),
        ("float32", ()),
    ],
    ids=str,
)
def test_another_type_rank_or_fixed_axis_is_refused(dtype, shape):
    with pytest.raises(InputError) as caught:
        PIXELS.check(dtype, shape)
    assert caught.value.expected == "tensor 'pixels' of type float32 and shape [batch, 1, 8, side]"
    assert caught.value.found == f"{dtype} {list(shape)}"


def test_a_shape_takes_the_given_sizes_and_keeps_the_fixed_ones():
    assert PIXELS.shape({"batch": 3, "side": 5, "unused": 9}) == (3, 1, 8, 5)


def graph(aliases=None, out_dtype="float32", out_axes=("batch", 4)):
    return GraphSignature(
        name="decoder",
        inputs=(
            TensorSpec(name="ids", dtype="int64", axes=("batch", "steps")),
            TensorSpec(name="cache_in", dtype="float32", axes=("batch", 4)),
        ),
        outputs=(TensorSpec(name="cache_out", dtype=out_dtype, axes=out_axes),),
        aliases=aliases or {},
    )


def test_an_alias_of_equal_type_and_axes_is_taken():
    assert graph({"cache_out": "cache_in"}).aliases == {"cache_out": "cache_in"}


@pytest.mark.parametrize(
    "changes",
    [
        {"aliases": {"cache_out": "cache_in"}, "out_axes": ("batch", 5)},
        {"aliases": {"cache_out": "cache_in"}, "out_axes": ("rows", 4)},
        {"aliases": {"cache_out": "cache_in"}, "out_dtype": "float16"},
        {"aliases": {"cache_out": "ids"}},
        {"aliases": {"cache_out": "no such input"}},
        {"aliases": {"no such output": "cache_in"}},
        {"aliases": {"cache_in": "cache_out"}},
    ],
    ids=str,
)
def test_an_alias_that_is_no_single_buffer_is_refused(changes):
    with pytest.raises(ArtefactError, match="graph 'decoder' to alias an output with an input of the same type"):
        graph(**changes)


@pytest.mark.parametrize("sizes", [(0, 1, 2), (2, 1, 2), (1, 3, 2)])
def test_sizes_out_of_order_are_refused(sizes):
    smallest, usual, largest = sizes
    with pytest.raises(ConfigError, match="min ≤ opt ≤ max"):
        Axis(min=smallest, opt=usual, max=largest)


BOUNDED = dataclasses.replace(graph(), axes={"batch": Axis(opt=8, max=32), "steps": Axis(min=2, opt=2, max=4)})


@pytest.mark.parametrize("shape", [(1, 2), (32, 4)], ids=str)
def test_sizes_up_to_both_bounds_are_taken(shape):
    BOUNDED.check(BOUNDED.input("ids"), "int64", shape)


@pytest.mark.parametrize(
    ("shape", "expected", "found"),
    [
        ((33, 2), "at most 32 along axis 'batch' of 'ids'", "33"),
        ((0, 2), "at least 1 along axis 'batch' of 'ids'", "0"),
        ((1, 5), "at most 4 along axis 'steps' of 'ids'", "5"),
        ((1, 1), "at least 2 along axis 'steps' of 'ids'", "1"),
    ],
)
def test_a_size_out_of_bounds_is_refused_by_name_and_bound(shape, expected, found):
    with pytest.raises(InputError) as caught:
        BOUNDED.check(BOUNDED.input("ids"), "int64", shape)
    assert (caught.value.expected, caught.value.found) == (expected, found)


def test_an_axis_without_sizes_takes_any():
    graph().check(graph().input("ids"), "int64", (1000, 0))


def test_a_signature_refuses_what_a_tensor_refuses():
    with pytest.raises(InputError, match="tensor 'ids' of type int64"):
        BOUNDED.check(BOUNDED.input("ids"), "int32", (1, 2))


def test_an_input_is_found_by_its_name():
    assert graph().input("ids").dtype == "int64"


def test_an_input_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(InputError) as caught:
        graph().input("cache_out")
    assert (caught.value.expected, caught.value.found) == ("one of ['ids', 'cache_in']", "'cache_out'")


def test_symbols_are_the_varying_axes_of_the_inputs_each_once():
    assert graph().symbols() == ("batch", "steps")


@given(signatures())
def test_a_signature_survives_json_text(signature):
    assert record_from_json(GraphSignature, json.loads(json.dumps(record_to_json(signature)))) == signature


@given(st.data())
def test_a_spec_admits_every_shape_that_it_makes_itself(data):
    signature = data.draw(signatures())
    sizes = {symbol: data.draw(st.integers(0, 5)) for symbol in signature.symbols()}
    for spec in signature.inputs:
        spec.check(spec.dtype, spec.shape(sizes))
