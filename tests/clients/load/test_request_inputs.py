import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attendant.errors import InputError
from clients.load.answer_checker import AnswerChecker
from clients.load.in_flight import InFlightRequest, PlannedRequest
from clients.load.request_inputs import create_inputs
from clients.load.scenario import Expect, Inputs, Workload
from clients.load.transport import PreparedWorkload
from clients.served_model import ServedModel

DIGITS = ServedModel(
    name="digits",
    decoupled=False,
    max_batch=8,
    inputs={"pixels": (1, 2, 2)},
    outputs={"logits": (3,)},
    dtypes={"pixels": "float32"},
    parameters={
        "task": "classify",
        "labels": ["zero", "one", "two"],
        "example": {"inputs": {"pixels": [[[0.0, 0.25], [0.5, 1.0]]]}, "answer": "two"},
    },
)
DATES = ServedModel(
    name="dates",
    decoupled=True,
    max_batch=0,
    inputs={"text_input": (1,), "max_tokens": (1,)},
    outputs={"text_output": (1,)},
    dtypes={"text_input": "object", "max_tokens": "int32"},
    parameters={"task": "translate", "example": {"inputs": {"text": "may 1", "max_tokens": 5}, "answer": "05-01"}},
)
TENSORS = ServedModel(
    name="own",
    decoupled=False,
    max_batch=4,
    inputs={"x": (-1, 3), "ids": (2,)},
    outputs={"y": (2,)},
    dtypes={"x": "float32", "ids": "int64"},
    parameters={"task": "predict"},
)


def asked(model, **inputs):
    return create_inputs(Workload(name="w", model="m", inputs=Inputs(**inputs)), model, np.random.default_rng(0))


def test_the_example_comes_with_its_answer_and_its_limit():
    (image,), (text,) = asked(DIGITS), asked(DATES)
    assert (image.tensors["pixels"].shape, image.answer, image.images) == ((1, 1, 2, 2), "two", 1)
    assert (text.text, text.answer, text.max_tokens, text.images) == ("may 1", "05-01", 5, 0)


def test_random_questions_have_the_served_shapes_and_types():
    found = asked(TENSORS, kind="random", number=3, rows=2, size=5)
    assert len(found) == 3
    assert {name: (array.shape, array.dtype.name) for name, array in found[0].tensors.items()} == {
        "x": ((2, 5, 3), "float32"),
        "ids": ((2, 2), "int64"),
    }
    assert not np.array_equal(found[0].tensors["x"], found[1].tensors["x"])


def test_zeros_are_one_question():
    (found,) = asked(DIGITS, kind="zeros", rows=4)
    assert (found.tensors["pixels"].sum(), found.images) == (0, 4)


def test_random_texts_have_as_many_words():
    (found,) = asked(DATES, kind="random", number=1, size=6)
    assert len(found.text.split()) == 6


def test_lines_of_a_file_are_questions_with_answers(tmp_path):
    path = tmp_path / "q.jsonl"
    lines = [{"text": "june 2", "answer": "06-02"}, {"text_input": "july 3", "max_tokens": 3}]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for model in (DATES, None):
        found = asked(model, kind="files", files=(str(path),))
        assert [(one.text, one.answer, one.max_tokens) for one in found] == [
            ("june 2", "06-02", None),
            ("july 3", None, 3),
        ]


def test_rows_of_an_array_are_questions(tmp_path):
    path = tmp_path / "q.npy"
    np.save(path, np.arange(12.0).reshape(3, 1, 2, 2))
    found = asked(DIGITS, kind="files", files=(str(path),))
    assert [one.tensors["pixels"].shape for one in found] == [(1, 1, 2, 2)] * 3
    assert found[2].tensors["pixels"].dtype == np.float32


@pytest.mark.parametrize(
    ("model", "inputs", "told"),
    [
        (TENSORS, {}, "an example"),
        (None, {}, "texts or files"),
        (DATES, {"kind": "files", "files": ("missing.jsonl",)}, "missing.jsonl"),
    ],
)
def test_questions_that_there_are_not_are_refused(model, inputs, told):
    with pytest.raises(InputError, match=told):
        asked(model, **inputs)


def test_a_line_that_is_no_object_or_names_no_input_is_refused(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"text": "a"}\n7\n')
    with pytest.raises(InputError, match="line 2"):
        asked(DATES, kind="files", files=(str(path),))
    path.write_text('{"colour": "a colour"}\n{"sound": 7}\n')
    with pytest.raises(InputError, match="sound"):
        asked(DATES, kind="files", files=(str(path),))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *itertools.product(("pixels", "ids"), ([[1.0, 2.0], [3.0]], [1.0], None, 7.0, {"a": 1.0}, "x", [[None, 1.0]])),
        *itertools.product(("pixels", "ids"), ([[[10**400, 1], [1, 1]]], [True, "x"], [])),
        ("ids", [math.inf, 1]),
    ],
)
def test_a_line_whose_values_are_no_such_tensor_is_named(tmp_path, name, values):
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({name: values}) + "\n")
    model = DIGITS if name == "pixels" else TENSORS
    with pytest.raises(InputError, match=f"{name} .*line 1 of .*q.jsonl"):
        asked(model, kind="files", files=(str(path),))


@pytest.mark.parametrize("value", [7, None, [1], [["a"], [None]], {"a": "b"}])
def test_a_line_whose_text_is_none_is_named(tmp_path, value):
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"text": value}) + "\n")
    with pytest.raises(InputError, match=r"text_input .*line 1 of .*q.jsonl"):
        asked(DATES, kind="files", files=(str(path),))


@pytest.mark.parametrize(
    "array",
    [np.array(2.5), np.array(["a"]), np.array([None]), np.zeros((2_000_000_000, 0)), np.zeros((100_001, 1), "u1")],
)
def test_an_array_that_is_no_rows_of_numbers_is_refused(tmp_path, array):
    path = tmp_path / "q.npy"
    np.save(path, array)
    with pytest.raises(InputError, match=r"q.npy"):
        asked(DIGITS, kind="files", files=(str(path),))


@pytest.mark.parametrize(
    "content", [b"", b"text", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape'"]
)
def test_a_damaged_array_is_refused(tmp_path, content):
    path = tmp_path / "q.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"q.npy"):
        asked(DIGITS, kind="files", files=(str(path),))


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (TENSORS, {"number": 100_000, "size": 1000}),
        (TENSORS, {"rows": 65_536, "size": 1_000_000}),
        (DATES, {"number": 100_000, "size": 100}),
    ],
)
def test_more_random_values_than_can_be_kept_are_refused_before_any_is_drawn(model, inputs):
    with pytest.raises(InputError, match="lower number, rows or size"):
        asked(model, kind="random", **inputs)


def test_an_image_needs_a_model_that_says_how_to_prepare_it(tmp_path):
    path = tmp_path / "q.png"
    Image.new("L", (2, 2)).save(path)
    with pytest.raises(InputError, match="prepare an image"):
        asked(DIGITS, kind="files", files=(str(path),))


def fault(model, expect, text=None, outputs=None, question=0, count=0, **inputs):
    workload = Workload(name="w", model="m", inputs=Inputs(**inputs), expect=expect)
    questions = create_inputs(workload, model, np.random.default_rng(0))
    judge = AnswerChecker(PreparedWorkload(workload, model, questions, []))
    flight = InFlightRequest(0, PlannedRequest(workload=0, input=question), 0.0, 0.0)
    flight.text, flight.token_count = text or "", count
    flight.outputs = None if outputs is None else lambda: outputs
    return judge.check(flight)


def logits(*values):
    return {"logits": np.array([values], np.float32)}


def test_the_label_of_the_example_is_expected():
    assert fault(DIGITS, Expect(kind="example"), outputs=logits(0, 1, 2)) == ""
    assert fault(DIGITS, Expect(kind="example"), outputs=logits(3, 1, 2)) == "expected 'two'; found 'zero'"


def test_a_given_label_or_text_is_expected():
    assert fault(DIGITS, Expect(kind="label", answers=("one",)), outputs=logits(0, 3, 2)) == ""
    assert "found 'a'" in fault(DATES, Expect(kind="text", answers=("b",)), text="a")


def test_so_many_tokens_are_expected():
    assert fault(DATES, Expect(tokens=3), text="a", count=3) == ""
    assert "expected 3 tokens; found 2" in fault(DATES, Expect(tokens=3), text="a", count=2)


def test_arrays_of_a_file_are_expected_within_the_tolerance(tmp_path):
    path = tmp_path / "e.npz"
    np.savez(path, y=np.array([[1.0, 2.0]] * 2))
    expect = Expect(kind="arrays", file=str(path), tolerance=0.1)
    two = {"kind": "random", "number": 2}
    assert fault(TENSORS, expect, outputs={"y": np.array([[1.05, 2.0]])}, question=1, **two) == ""
    assert "y differs by" in fault(TENSORS, expect, outputs={"y": np.array([[1.05, 2.2]])}, **two)
    assert "y differs by nan" in fault(TENSORS, expect, outputs={"y": np.array([[1.0, np.nan]])}, **two)
    assert "found 0" in fault(TENSORS, expect, outputs={}, **two)


@pytest.mark.parametrize(
    ("model", "expect", "inputs"),
    [
        (DIGITS, Expect(kind="example"), {"kind": "zeros"}),
        (DIGITS, Expect(kind="label", answers=("one", "two")), {}),
        (DIGITS, Expect(kind="arrays", file="missing.npz"), {}),
        *((DIGITS, Expect(kind="arrays", file=name), {}) for name in ("few.npz", "none.npz", "cut.npz", "single.npz")),
        *((DIGITS, Expect(kind="arrays", file=name), {}) for name in ("empty.npz", "array.npy", "objects.npz")),
    ],
)
def test_what_is_not_known_cannot_be_expected(tmp_path, monkeypatch, model, expect, inputs):
    monkeypatch.chdir(tmp_path)
    np.save("array.npy", np.zeros((1, 3)))
    np.savez("few.npz", y=np.zeros((2, 3)))
    np.savez("single.npz", y=np.array(1.0))
    np.savez("objects.npz", y=np.array([None]))
    Path("none.npz").write_bytes(b"PK\x03\x04 nothing of the kind")
    Path("empty.npz").touch()
    Path("cut.npz").write_bytes(Path("few.npz").read_bytes()[:-30])
    with pytest.raises(InputError):
        fault(model, expect, **inputs)
