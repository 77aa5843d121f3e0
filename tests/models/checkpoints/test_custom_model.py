import sys

import pytest
import torch

from attendant.errors import ArtefactError, ConfigError
from models.checkpoints.resolve import checkpoint_named
from tests.models.checkpoints.custom_models import WHOLE, own_file


def test_a_file_becomes_a_checkpoint_with_its_contract(tmp_path):
    path = own_file(tmp_path)
    checkpoint = checkpoint_named(str(path))
    (graph,) = checkpoint.graphs()
    assert (checkpoint.name, checkpoint.family.task.name, checkpoint.code) == (
        "pooled",
        "predict",
        (path, tmp_path / "neighbour.py"),
    )
    assert [spec.name for spec in graph.signature.inputs] == ["readings", "valid"]
    assert graph.largest == {"time": 12}
    assert checkpoint.serving_details() == {"unit": "volt"}
    assert not any(parameter.requires_grad for parameter in checkpoint.model.parameters())
    assert str(tmp_path) not in sys.path and "neighbour" not in sys.modules


def test_the_answer_to_its_example_is_what_the_module_says(tmp_path):
    checkpoint = checkpoint_named(str(own_file(tmp_path)))
    readings = torch.tensor([[[0.5] * 8, [1.0] * 8]])
    mixed, weights = checkpoint.model(readings, torch.ones(1, 2, dtype=torch.bool))
    answer = checkpoint.example["answer"]
    assert torch.tensor(answer["mixed"]).allclose(mixed[0])
    assert torch.tensor(answer["weights"]).allclose(weights[0])


def test_an_answer_that_the_reader_gives_is_kept(tmp_path):
    given = WHOLE.replace('"valid": [True, True]}}', '"valid": [True, True]}, "answer": {"mixed": [0] * 8}}')
    assert checkpoint_named(str(own_file(tmp_path, given))).example["answer"] == {"mixed": [0] * 8}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module", "runs at .*mine.py; found ModuleNotFoundError"),
        ("x = (", "found SyntaxError"),
        ("def make(): pass", r"a function model\(\) in .*; found \['make'\]"),
        ("def model(): return 3", r"a CustomModel from model\(\) in .*; found int"),
        ("def model(): raise OSError('no weights')", r"to return; found OSError: no weights"),
    ],
)
def test_a_file_that_gives_no_model_is_refused(tmp_path, text, message):
    with pytest.raises(ArtefactError, match=message):
        checkpoint_named(str(own_file(tmp_path, text)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('("batch", 8)', '("rows", 8)', "'batch' as the first axis of 'mixed'"),
        ('largest={"time": 12}', "largest={}", r"a largest size for each varying axis \['time'\]"),
        ('dtype="bool"', 'dtype="int64"', r"a limit for each integer input \['valid'\]"),
        ('"valid": [True, True]}}', '"extra": 1}}', "an example for the inputs"),
    ],
)
def test_a_contract_that_is_not_whole_is_refused(tmp_path, old, new, message):
    assert old in WHOLE
    with pytest.raises(ConfigError, match=message):
        checkpoint_named(str(own_file(tmp_path, WHOLE.replace(old, new))))
