"""What the verbs print, of servers that answer oddly."""

import asyncio
import json
import os

import ml_dtypes
import numpy as np
import pytest

from attendant.errors import InputError
from clients import terminal
from clients.classify import Guess
from clients.served_model import ServedModel


class Client:
    """In a client's place: it answers with some outputs."""

    def __init__(self, **outputs):
        self._outputs = outputs

    async def model_for(self, task, name):
        shapes = {"x": (1,)}
        return ServedModel(
            name="m", decoupled=False, max_batch=8, inputs=shapes, outputs={}, dtypes={"x": "float32"}, parameters={}
        )

    async def infer(self, model, inputs):
        return self._outputs


def test_labels_reach_the_terminal_without_their_control_characters(monkeypatch, capsys):
    class Classifier:
        async def classify_file(self, path, top):
            return [Guess(label="\x1b[2Ja\nb: 100.0%", probability=0.5)]

    async def find(client, model):
        return Classifier()

    monkeypatch.setattr(terminal.Classifier, "find", find)
    asyncio.run(terminal.print_labels(None, None, ["x.png"], 1, json=False))
    assert capsys.readouterr().out == "x.png: \\x1b[2Ja\\nb: 100.0% (50.0%)\n"


def predict(file, **outputs):
    return asyncio.run(terminal.print_prediction(Client(**outputs), None, file))


def test_a_prediction_is_json_whatever_its_outputs_hold(tmp_path, capsys):
    (tmp_path / "request.json").write_text('{"x": [[1]]}')
    floats, narrow = np.array([[np.nan, -np.inf, 0.5]]), np.ones((1, 1), ml_dtypes.bfloat16)
    texts = np.array([b"a", b"\xff"], object)
    predict(tmp_path / "request.json", floats=floats, narrow=narrow, texts=texts, count=np.array([[2]]))
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found == {"floats": [[None, None, 0.5]], "narrow": [[1.0]], "texts": ["a", "\ufffd"], "count": [[2]]}


def test_a_request_that_is_a_pipe_or_too_deep_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "deep").write_text('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}")
    for name, found in (("pipe", "is no file"), ("deep", "nested too deep")):
        with pytest.raises(InputError, match=found):
            predict(tmp_path / name)
