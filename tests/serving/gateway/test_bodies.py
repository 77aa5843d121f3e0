import tracemalloc

import pytest

from attendant.errors import InputError
from serving.gateway.bodies import MOST_FIELDS, MOST_VALUES, parse_json

DEPTH, WIDTH = 180, 130_000
MOST_MIB = 64


def nested(part):
    return b'{"a":' * DEPTH + b"[" + b",".join([part] * WIDTH) + b"]" + b"}" * DEPTH


DEEP = {
    "surrogate": b'{"z":"\\ud800","a":' + nested(b"0") + b"}",
    "colons": nested(b'":"'),
    "objects": nested(b'{"a":0}'),
}


@pytest.mark.planted
@pytest.mark.parametrize("data", DEEP.values(), ids=DEEP)
def test_a_body_that_is_deep_and_wide_takes_memory_for_its_values_and_not_for_their_paths(data):
    tracemalloc.start()
    try:
        if b"ud800" in data:
            with pytest.raises(InputError, match="half of a surrogate pair in z"):
                parse_json(data)
        else:
            parse_json(data)
        assert tracemalloc.get_traced_memory()[1] < MOST_MIB << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "param"),
    [
        ('"\\ud800"', ""),
        ('{"a": [1, {"b": "\\ud800"}]}', "a.1.b"),
        ('{"a": {"\\ud800": 1}}', "a"),
        ('["x", "\\ud800"]', "1"),
    ],
)
def test_half_a_character_is_refused_with_its_place(data, param):
    with pytest.raises(InputError, match="half of a surrogate pair") as refused:
        parse_json(data)
    assert refused.value.param == param


def test_too_many_fields_are_refused_with_their_place():
    fields = ",".join(f'"{number}": 0' for number in range(MOST_FIELDS + 1))
    with pytest.raises(InputError, match=f"at most {MOST_FIELDS} fields") as refused:
        parse_json(f'{{"a": [0, {{{fields}}}]}}')
    assert refused.value.param == "a.1"


@pytest.mark.parametrize("part", ["[" * 150 + "]" * 150, '{"":' * 150 + "0" + "}" * 150], ids=["lists", "objects"])
def test_too_many_lists_and_objects_are_refused_though_few_values_are_beside_each_other(part):
    with pytest.raises(InputError, match=f"at most {MOST_VALUES} values"):
        parse_json("[" + ",".join([part] * 1000) + "]")
