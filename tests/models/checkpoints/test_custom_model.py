import os
import re
import subprocess
import sys
import time

import pytest
import torch

from attendant.errors import ArtefactError, ConfigError, ExportError
from models.checkpoints import custom_model
from models.checkpoints.custom_model import trace_custom_model
from models.checkpoints.resolve import checkpoint_named
from tests.models.checkpoints.custom_models import PROJECT, WHOLE, own_file, write_project


def test_a_file_becomes_a_checkpoint_with_its_contract(tmp_path):
    path = own_file(tmp_path)
    checkpoint = checkpoint_named(str(path))
    (graph,) = checkpoint.graphs()
    assert (checkpoint.name, checkpoint.family.task.name) == ("pooled", "predict")
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
        ("def model(): raise OSError('no weights')", r"found OSError: no weights \(at mine.py:1: def model"),
        ("import sys\ndef model(): sys.exit(3)", r"to return; found SystemExit: 3 \(at mine.py:2: def model"),
        ("def model(): raise KeyboardInterrupt", r"to return; found KeyboardInterrupt:  \(at mine.py:1"),
        (
            "class E(Exception):\n  def __str__(self): raise self\ndef model(): raise E",
            "found E: its text cannot be made",
        ),
        ("import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))", "to end well; found status 1"),
        ("import os\ndef model(): os.kill(os.getpid(), 11)", r"to end well; found SIGSEGV"),
        ("import os\ndef model(): os._exit(0)", r"to end well; found status 0"),
    ],
)
def test_a_file_that_gives_no_model_is_refused(tmp_path, text, message):
    with pytest.raises(ArtefactError, match=message):
        checkpoint_named(str(own_file(tmp_path, text)))


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("module=Pooled()", "module=Pooled", ConfigError, "module of a CustomModel, an nn.Module; found <class"),
        ("module=Pooled()", "module=torch.jit.trace(nn.ReLU(), torch.ones(1))", ArtefactError, r"forward\(\) failed"),
        ('name="pooled"', "name=None", ConfigError, "name of a CustomModel, a str; found None"),
        ('{"unit": "volt"}', "['volt']", ConfigError, r"details of a CustomModel, a dict; found \['volt'\]"),
        ('{"unit": "volt"}', "{'Unit': 'volt'}", ConfigError, "names of details .* in lower case.*; found 'Unit'"),
        ('{"unit": "volt"}', "{7: 'volt'}", ConfigError, "names of details .* in lower case.*; found 7"),
        ('{"inputs": {"readings"', '[{"readings"', ConfigError, "example of a CustomModel, a dict"),
        ('largest={"time": 12}', 'largest={"time": 10**15}, smallest={"time": 10**12}', ArtefactError, "found Runtime"),
        ('("batch", "time", 8)', '("batch", "time", -8)', ArtefactError, "found RuntimeError: .*negative dimension"),
    ],
)
def test_what_is_of_another_type_or_size_is_one_error(tmp_path, old, new, kind, message):
    assert old in WHOLE
    text = WHOLE.replace(old, new).replace("True]}}", "True]}]" if new.startswith("[{") else "True]}}")
    with pytest.raises(kind, match=message):
        checkpoint_named(str(own_file(tmp_path, text)))


def test_a_module_without_code_of_its_own_in_forward_is_traced_or_one_error(tmp_path):
    text = WHOLE.replace("module=Pooled()", "module=as_partial(Pooled())").replace(
        "def model",
        "def as_partial(module):\n    module.forward = partial(module.forward)\n    return module\n\ndef model",
    )
    assert checkpoint_named(str(own_file(tmp_path, f"from functools import partial\n{text}"))).name == "pooled"
    with pytest.raises(ArtefactError, match=r"a custom model in .* is not supported on ScriptModules"):
        checkpoint_named(str(own_file(tmp_path, WHOLE.replace("module=Pooled()", "module=torch.jit.script(Pooled())"))))


def test_a_change_of_the_same_size_in_the_same_second_is_seen(tmp_path):
    for found, value in (("int", "3"), ("str", "''"), ("set", "{3}")):
        path = own_file(tmp_path, f"def model(): return {value:3}")
        os.utime(path, (1e9, 1e9))
        with pytest.raises(ArtefactError, match=f"found {found}"):
            checkpoint_named(str(path))


LEFT = {
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n",
    "a callback": "import atexit, time\natexit.register(time.sleep, 600)\n",
}


@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
def test_what_a_file_leaves_running_is_not_waited_for(tmp_path, left):
    assert trace_custom_model(own_file(tmp_path, left + WHOLE), tmp_path).is_file()


def test_a_file_that_runs_for_long_is_told_of(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(custom_model, "SILENCE_S", 0.1)
    with pytest.raises(ArtefactError, match="found int"):
        trace_custom_model(own_file(tmp_path, "import time\ntime.sleep(0.5)\ndef model(): return 3"), tmp_path)
    assert "mine.py has run for 0.1 s" in capfd.readouterr().err


def test_what_an_earlier_run_left_in_the_folder_is_no_answer(tmp_path):
    wrong = own_file(tmp_path, "def model(): return 3")
    with pytest.raises(ArtefactError, match="found int"):
        trace_custom_model(wrong, tmp_path)
    program = trace_custom_model(own_file(tmp_path), tmp_path)
    assert program.is_file()
    with pytest.raises(ArtefactError, match="found status 0"):
        trace_custom_model(own_file(tmp_path, "import os\nos._exit(0)"), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('("batch", 8)', '("rows", 8)', "'batch' as the first axis of 'mixed'"),
        ('("batch", 8)', '("batch",)', "an axis behind the batch of 'mixed', as Triton wants one"),
        (
            'TensorSpec(name="weights"',
            'TensorSpec(name="valid"',
            r"inputs and outputs of different names; found \['readings'",
        ),
        ('largest={"time": 12}', "largest={}", r"a largest size for each varying axis \['time'\]"),
        ('dtype="bool"', 'dtype="int64"', r"a limit for each integer input \['valid'\]"),
        ('"valid": [True, True]}}', '"extra": 1}}', "an example for the inputs"),
        (
            'largest={"time": 12}',
            'largest={"time": 12}, within={"valid": (0, 1)}',
            r"a float input lies, of \['readings'\]",
        ),
        ('largest={"time": 12}', 'largest={"time": 12}, within={"readings": (1, 0)}', "two numbers within which"),
        ("mixed.mean(1), weights", "mixed.mean(1).log(), weights", r"finite numbers in mixed .* from N\(0, 1\)"),
    ],
)
def test_a_contract_that_is_not_whole_is_refused(tmp_path, old, new, message):
    assert old in WHOLE
    with pytest.raises(ConfigError, match=message):
        checkpoint_named(str(own_file(tmp_path, WHOLE.replace(old, new))))


@pytest.mark.parametrize("initialised", [True, False])
def test_a_project_has_packages_of_the_names_of_ours(tmp_path, initialised):
    checkpoint = checkpoint_named(str(write_project(tmp_path, initialised)))
    assert checkpoint.name == "mine" and checkpoint.details == {"labels": ["a", "b", "c"]}
    assert checkpoint.model(torch.ones(2, 4))[0].shape == (2, 3)


def test_nothing_of_ours_but_the_contract_can_be_imported(tmp_path):
    for name in ("models", "export", "serving", "clients", "commands"):
        path = own_file(tmp_path, f"import {name}.verbs\n{WHOLE}")
        with pytest.raises(ArtefactError, match=f"No module named '{name}'"):
            checkpoint_named(str(path))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('("batch", 4)', '("batch", 5)', "forward() failed on x [2,5]: mat1 and mat2 shapes cannot be multiplied "
         "(2x5 and 4x3) (at models/net.py:11: return self.head(x)); "),
        ('("batch", 3)', '("batch", 2)', "expected scores float32 [2,2] from forward() on x [2,4]; found float32 [2,"),
        ("Net()", "Net().double()", "forward() failed on x [2,4]: mat1 and mat2 must have the same dtype"),
    ],
)  # fmt: skip
def test_a_mistake_of_shapes_is_told_in_one_line_with_the_users_own_before_anything_is_exported(
    tmp_path, old, new, message
):
    path = write_project(tmp_path, True)
    assert old in PROJECT["serve_me.py"]
    path.write_text(PROJECT["serve_me.py"].replace(old, new))
    command = [sys.executable, "-m", "attendant", "export", "onnx", str(path), "--out", str(tmp_path / "out")]
    began = time.monotonic()
    found = subprocess.run(command, capture_output=True, text=True)
    assert time.monotonic() - began < 20, "3 s on a quiet machine"
    assert found.returncode == 2 and found.stderr.startswith("error: ") and message in found.stderr
    assert found.stderr.count("\n") == 1 and not re.search("\x1b", found.stderr) and not (tmp_path / "out").exists()


@pytest.mark.patient
def test_the_smallest_sizes_are_tried_as_well(tmp_path):
    text = WHOLE.replace("mixed.mean(1)", "torch.avg_pool1d(mixed.transpose(1, 2), 3, 1).mean(2)").replace(
        "[[0.5] * 8, [1.0] * 8]", "[[0.5] * 8] * 4"
    )
    text = text.replace("[True, True]", "[True] * 4")
    with pytest.raises(ArtefactError, match=r"forward\(\) failed on readings \[1,1,8\], valid \[1,1\]: "):
        checkpoint_named(str(own_file(tmp_path, text)))
    whole = text.replace('largest={"time": 12}', 'largest={"time": 12}, smallest={"time": 3}')
    with pytest.raises(ExportError, match=r"not every size in 3 <= time <= 12 keeps \(\(-2\) \+ it\) != 1; see"):
        checkpoint_named(str(own_file(tmp_path, whole)))  # torch.export takes 1 for a constant, also within
    (graph,) = checkpoint_named(str(own_file(tmp_path, whole.replace('{"time": 3}', '{"time": 4}')))).graphs()
    assert graph.smallest == {"time": 4}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mixed.mean(1), weights", "mixed.mean(1) - 0.1 * mixed.mean((0, 1)), weights"),
        pytest.param("mixed.mean(1), weights", "mixed.mean(1), weights.softmax(0)", marks=pytest.mark.patient),
        pytest.param(
            "mixed.mean(1), weights", "mixed.mean(1) + 0.1 * torch.rand(8), weights", marks=pytest.mark.patient
        ),
        ("nn.MultiheadAttention(8, HEADS, batch_first=True)", "Mixing()"),
    ],
)
def test_a_row_that_depends_on_others_or_on_chance_is_refused(tmp_path, old, new):
    assert old in WHOLE
    text = f"""{WHOLE.replace(old, new)}

class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2)  # along the batch

    def forward(self, x, *_, **__):
        return self.layer(x), torch.ones(len(x), x.shape[1], x.shape[1])
"""
    with pytest.raises(
        ConfigError, match=r"of a row from forward\(\) to be the same alone and beside another; found \["
    ):
        checkpoint_named(str(own_file(tmp_path, text)))


def test_a_row_of_integers_that_depends_on_others_is_refused(tmp_path):
    text = """
from torch import nn
from attendant.custom_model import Contract, CustomModel, TensorSpec


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 3)

    def forward(self, ids):
        rows = self.table(ids).mean(1)
        return rows - rows.mean(0)


def model():
    inputs = (TensorSpec(name="ids", dtype="int64", axes=("batch", 4)),)
    outputs = (TensorSpec(name="y", dtype="float32", axes=("batch", 3)),)
    contract = Contract(inputs=inputs, outputs=outputs, below={"ids": 7})
    return CustomModel(name="ids", module=Embedded(), contract=contract)
"""
    with pytest.raises(ConfigError, match="y of a row from"):
        checkpoint_named(str(own_file(tmp_path, text)))
    whole = text.replace("rows - rows.mean(0)", "rows")
    assert checkpoint_named(str(own_file(tmp_path, whole))).name == "ids"


@pytest.mark.patient
def test_a_row_of_numbers_that_are_rounded_to_integers_is_none_that_depends_on_others(tmp_path):
    text = """
import torch
from torch import nn
from attendant.custom_model import Contract, CustomModel, TensorSpec


class Sound(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.decoder = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8000))

    def forward(self, x):
        return (self.decoder(x).tanh() * 32767).round().to(torch.int32)


def model():
    inputs = (TensorSpec(name="x", dtype="float32", axes=("batch", 64)),)
    outputs = (TensorSpec(name="y", dtype="int32", axes=("batch", 8000)),)
    return CustomModel(name="sound", module=Sound(), contract=Contract(inputs=inputs, outputs=outputs))
"""
    assert checkpoint_named(str(own_file(tmp_path, text))).name == "sound"
    mixed = text.replace("self.decoder(x)", "self.decoder(x - x.mean(0))")
    with pytest.raises(ConfigError, match="y of a row from") as told:
        checkpoint_named(str(own_file(tmp_path, mixed)))
    alone, beside = re.search(r"found (\[.*?\]) and (\[.*?\])", str(told.value)).groups()
    assert alone != beside


def test_an_axis_that_python_makes_a_number_of_is_named(tmp_path):
    text = WHOLE.replace("return mixed", "assert len(mixed) * 2 in (2, 4); return mixed")
    with pytest.raises(ExportError, match=r"the exporter froze \['batch'\]"):
        checkpoint_named(str(own_file(tmp_path, text)))


def test_the_same_file_gives_the_same_bytes_and_a_dict_its_outputs_by_name(tmp_path):
    text = WHOLE.replace("return mixed.mean(1), weights", 'return {"weights": weights, "mixed": mixed.mean(1)}')
    path = own_file(tmp_path, text)
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
        trace_custom_model(path, place)
    assert len({(place / "model.pt2").read_bytes() for place in places}) == 1
    assert len(checkpoint_named(str(path)).example["answer"]["mixed"]) == 8
