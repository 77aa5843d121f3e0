"""Every rule on models finds what breaks it, at its place, and nothing in what keeps it."""

import os
from pathlib import Path

import pytest

from serving.lint.check import MOST_FINDINGS, check_repository
from serving.lint.registry import FILE_RULES, MODEL_RULES
from serving.lint.report import print_problems
from tests.serving.lint.broken_models import CASES
from tests.serving.lint.sound_models import ENSEMBLE, GROWING, PLAIN, PYTHON, STATES, STEP

# A fault that Triton takes for another one too is found by both rules.
COMPANIONS = {"state-twice": {"state-order"}}


def repository(folder, text, files, step=True):
    write(folder / "m", text, files)
    if step:
        write(folder / "step", STEP, ("1/model.onnx",))
    return folder


def write(model, text, files):
    for name in files:
        path = model / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.touch()
    if text is not None:
        (model / "config.pbtxt").write_text(text)


def found(folder, text, files=("1/model.onnx",)):
    """Rule → places, in the model ``m``."""
    places = {}
    for problem in check_repository(repository(folder, text, files)):
        assert problem.subject == "m"
        places.setdefault(problem.rule.name, []).append(problem.finding.where)
    return places


def test_of_thousands_of_faults_so_many_are_told_as_somebody_reads(tmp_path):
    states = "".join(
        f'state {{ input_name: "a{number // 2}" output_name: "b{5000 - number}" data_type: TYPE_FP32 dims: 1 }}\n'
        for number in range(3000)
    )
    versions = ", ".join(map(str, range(2, 3000)))
    text = f"sequence_batching {{ {states} }} version_policy {{ specific {{ versions: [ {versions} ] }} }}"
    places = found(tmp_path, text)
    for rule, place in (("state-twice", "state 'a0'"), ("state-order", "state 'a0'"), ("version", "version_policy")):
        assert places[rule][0] == place and places[rule][MOST_FINDINGS:] == [""], rule


def test_brackets_in_the_title_of_a_report_are_text(capsys):
    print_problems("q[/b]th[bold]", [])
    assert "q[/b]th[bold]: 0 errors" in capsys.readouterr().out


@pytest.mark.parametrize("name", CASES)
def test_a_configuration_that_breaks_a_rule_is_found_at_its_place(name, tmp_path):
    case = CASES[name]
    files = case.files if case.broken_files is None else case.broken_files
    places = found(tmp_path, case.broken_text, files)
    assert places.keys() - COMPANIONS.get(name, set()) == {name}
    assert places[name][0] == case.at


@pytest.mark.parametrize("name", CASES)
def test_a_configuration_that_keeps_it_breaks_none(name, tmp_path):
    case = CASES[name]
    assert found(tmp_path, case.text, case.files) == {}


def test_every_rule_has_a_configuration_that_breaks_it():
    assert CASES.keys() == {rule.name for rule in MODEL_RULES}
    assert len(MODEL_RULES) == len(CASES)


def test_the_committed_repository_is_clean():
    assert check_repository(Path("model_repository")) == []


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (PLAIN + "max_bath_size: 8", "configuration", "no field named"),
        (PLAIN.replace("KIND_CPU", "KIND_TPU"), "configuration", "KIND_TPU"),
        (PLAIN + "sequence_batching { }", "configuration", "scheduling_choice"),
        (None, "no-configuration", "no file"),
    ],
)
def test_what_is_no_configuration_is_told_and_judged_no_further(text, name, says, tmp_path):
    (problem,) = check_repository(repository(tmp_path, text, ("1/model.onnx",)))
    assert problem.rule.name == name
    assert problem.rule in FILE_RULES
    assert says in problem.finding.found


def test_a_configuration_that_is_a_pipe_is_not_waited_for(tmp_path):
    folder = repository(tmp_path, None, ("1/model.onnx",))
    os.mkfifo(folder / "m" / "config.pbtxt")
    (problem,) = check_repository(folder)
    assert problem.rule in FILE_RULES
    assert "is no file" in problem.finding.found


def test_a_longer_name_of_another_state_is_the_known_trap_of_orders(tmp_path):
    text = STATES.replace("kv_01_in", "kv_00_length_in").replace("kv_01_out", "kv_00_length_out")
    assert found(tmp_path, text)["state-order"] == ["state 'kv_00_in'", "state 'kv_00_length_in'"]


def test_a_state_that_grows_on_a_cpu_is_found(tmp_path):
    assert set(found(tmp_path, GROWING + "instance_group { kind: KIND_CPU }")) == {"state-growable"}


@pytest.mark.parametrize(
    "limit", ["max_queue_size: 1", "default_timeout_microseconds: 5", "allow_timeout_override: true"]
)
def test_each_limit_of_a_queue_is_a_policy(limit, tmp_path):
    policy = f"dynamic_batching {{ default_queue_policy {{ {limit} }} }}"
    assert set(found(tmp_path, PLAIN.replace("dynamic_batching { }", policy))) == {"queue-policy"}


def test_an_empty_policy_limits_nothing(tmp_path):
    text = PLAIN.replace("dynamic_batching { }", "dynamic_batching { default_queue_policy { } }")
    assert found(tmp_path, text) == {}


@pytest.mark.parametrize("folders", [(), ("v1/model.onnx",), ("01/model.onnx",)])
def test_a_model_without_a_version_is_found(folders, tmp_path):
    (tmp_path / "m").mkdir()
    assert "version" in found(tmp_path, PLAIN, folders)


def test_the_newest_version_is_looked_at_where_no_policy_is_stated(tmp_path):
    assert found(tmp_path, PLAIN, ("9/", "10/model.onnx")) == {}
    assert found(tmp_path / "other", PLAIN, ("9/model.onnx", "10/")) == {"model-file": ["10/model.onnx"]}


def test_a_backend_of_others_needs_something_in_its_folder(tmp_path):
    text = PYTHON.replace('"python"', '"own"') + 'model_warmup { name: "w" batch_size: 1 }'
    text = text.replace("dims: [ 4 ] }", "dims: [ 4 ] optional: true }")
    assert found(tmp_path, text, ("1/",)) == {"model-file": ["1/"]}
    assert found(tmp_path / "other", text, ("1/anything",)) == {}


@pytest.mark.parametrize(("file", "rules"), [("1/model.py", set()), ("1/model.bin", {"warm-up"})])
def test_a_backend_follows_from_the_file_where_none_is_named(file, rules, tmp_path):
    assert found(tmp_path, PYTHON.replace('backend: "python"', ""), (file,)).keys() == rules


def test_nothing_is_wrong_with_an_ensemble(tmp_path):
    assert found(tmp_path, ENSEMBLE, ("1/",)) == {}


def test_a_python_model_is_not_asked_for_a_warm_up(tmp_path):
    assert found(tmp_path, PYTHON, ("1/model.py",)) == {}


def test_a_backend_of_others_follows_from_what_stands_behind_the_dot(tmp_path):
    write(tmp_path / "m.own", PYTHON.replace('name: "m" backend: "python"', ""), ("1/libtriton_own.so",))
    assert {problem.rule.name for problem in check_repository(tmp_path)} == {"warm-up"}
