"""Forms of a language model are timed, and the fastest for what is asked becomes the artefact."""

import json

import pytest

from attendant.errors import InputError, OutputError
from attendant.manifest import Manifest
from export.artefact.stage import export_onnx
from export.precision.precisions import NAMES
from export.tuning import verbs
from export.tuning.forms import Form, forms_of
from export.tuning.timing import Requests, Timing, time_requests


def timing(first_token_s, step_s, megabytes=1.0):
    return Timing(first_token_s=first_token_s, step_s=step_s, megabytes=megabytes)


def test_forms_are_precisions_that_a_cpu_decodes_in_and_what_prompts_may_be_read_in():
    forms = [form.name for form in forms_of(NAMES)]
    assert {"fp32", "int8", "int4", "int4-prefill-int8", "int4-kv8", "int4-kv8-prefill-int8"} <= set(forms)
    assert "bf16" not in forms and len(forms) == len(set(forms))
    assert forms_of(("int8", "int8")) == [Form("int8")]
    assert Form("int4", "int8").flags == "--precision int4 --prefill int8"


@pytest.mark.parametrize(("answer_tokens", "chosen"), [(1, "fast to begin"), (11, "small"), (1000, "fast to go on")])
def test_the_fastest_depends_on_what_is_asked_and_of_those_that_are_level_the_smallest_is_taken(answer_tokens, chosen):
    timings = {
        "fast to begin": timing(1.0, 0.20),
        "fast to go on": timing(2.0, 0.10, megabytes=9.0),
        "small": timing(2.0, 0.102, megabytes=0.5),
        "slow": timing(3.0, 0.20, megabytes=0.1),
    }
    if chosen == "fast to go on":
        timings["small"] = timing(2.0, 0.2, megabytes=0.5)
    requests = Requests(prompt_tokens=1, answer_tokens=answer_tokens, batch=1)
    assert verbs.fastest(timings, requests) == chosen


@pytest.mark.planted
def test_the_artefact_is_the_form_that_was_fastest_and_says_what_was_measured(tmp_path, monkeypatch, capsys):
    answers = {"fp32": timing(1.0, 0.3), "int8": timing(1.0, 0.1), "int4": timing(1.0, 0.2)}
    measured = []

    def timed(folder, requests, threads, seconds):
        real = time_requests(folder, requests, threads, 0.0)
        assert real.first_token_s > 0 and real.step_s > 0 and real.megabytes > 0
        measured.append(folder.name)
        return answers.get(folder.name, timing(9.0, 9.0))

    monkeypatch.setattr(verbs, "time_requests", timed)
    out = tmp_path / "tuned"
    names = ("fp32", "int8", "int4", "int4-kv8")
    assert verbs.tune("llama-tiny", out, names, prompt_tokens=4, answer_tokens=3, batch=2, threads=1) == 0
    assert measured == ["fp32", "int8", "int4", "int4-prefill-int8"]
    found = json.loads((out / verbs.TUNING_NAME).read_text())
    assert found["chosen"] == "int8" and found["forms"]["int8"]["answer_s"] == pytest.approx(1.2)
    assert all("inputs to calibrate llama-tiny with" in reason for reason in found["left_out"].values())
    assert list(found["left_out"]) == ["int4-kv8", "int4-kv8-prefill-int8"]
    Manifest.read(out).verify(out)
    assert not export_onnx("llama-tiny", out, precision="int8")[1], "it is that very export"
    assert [path.name for path in tmp_path.iterdir()] == ["tuned"]
    told = capsys.readouterr()
    assert f"{out} is int8: attendant export onnx llama-tiny --precision int8 --out {out}" in told.out
    assert told.err.startswith("1/6 fp32: export, load and time it")


def test_what_cannot_be_asked_is_refused_and_leaves_nothing(tmp_path):
    out = tmp_path / "tuned"
    with pytest.raises(InputError, match="at most 12 tokens of a prompt and its answer"):
        verbs.tune("llama-tiny", out, ("int8",), prompt_tokens=10, answer_tokens=3)
    with pytest.raises(InputError, match="a language model; found vit-tiny, which can classify"):
        verbs.tune("vit-tiny", out, ("int8",), prompt_tokens=1, answer_tokens=1)
    with pytest.raises(InputError, match="a precision that the model can be exported in"):
        verbs.tune("llama-tiny", out, ("int4-kv8",), prompt_tokens=1, answer_tokens=1)
    out.mkdir()
    (out / "mine.txt").write_text("a")
    with pytest.raises(OutputError):
        verbs.tune("llama-tiny", out, ("int8",), prompt_tokens=1, answer_tokens=1)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["tuned"]
