"""``attendant load tune`` from the command line, less the server: what is refused, printed, and returned."""

import json

import pytest

from attendant.errors import ConfigError, OutputError, UserError
from attendant.manifest import Manifest
from serving.capacity.profiling import measure
from serving.capacity.tuning import measurement
from serving.capacity.tuning.measurement import Measured
from serving.capacity.tuning.verb import tune
from tests.conftest import LANGUAGE_MODEL
from tests.serving.capacity.profiles import profile

DEMAND = 'rate = 20\nprompt = {kind = "constant", tokens = 4}\nanswer = {kind = "constant", tokens = 5}\n'
FEW = {"max_num_seqs": (4, 16), "max_prefill_tokens": (256,), "threads": (1,), "instances": (1,), "requests": 100}


@pytest.fixture
def asked(tmp_path, language_model, monkeypatch):
    """A function that tunes a demand, with a profile that fits or does not; servers answer a rate of their slots."""
    measured = []

    def answer(bench, candidate, expected, title):
        measured.append(candidate.max_num_seqs)
        return Measured(value=float(candidate.max_num_seqs))

    monkeypatch.setattr(measurement.Bench, "measure", answer)

    fingerprint = Manifest.read(language_model).fingerprint

    def ask(more="", error=0.1, artefact=language_model, of=None, **flags):
        (tmp_path / "demand.toml").write_text(DEMAND + more)
        (tmp_path / "profiles").mkdir(exist_ok=True)
        made = profile(fit_error={"decode": error}, **({"fingerprint": fingerprint} if of is None else of))
        made.write(tmp_path / "profiles/threads-1.json")
        status = tune(artefact, tmp_path / "demand.toml", **{"profiles": tmp_path / "profiles", **FEW, **flags})
        return status, measured

    return ask


def test_the_table_ends_with_the_command_to_use(asked, capsys):
    status, measured = asked()
    out, err = capsys.readouterr()
    assert status == 0 and measured == [16, 4]
    assert "--out build/repository --threads 1 --instances 1 --max-num-seqs 16 --max-prefill-tokens 256\n" in out
    assert out.endswith("attendant serve --repository build/repository\n")
    assert err.startswith("2 ways to serve") and "simulations 2/2" in err


def test_json_says_the_same(asked, capsys):
    asked(json=True, objective="latency p95 < 9 s")
    found = json.loads(capsys.readouterr().out)
    assert found["best"]["max_num_seqs"] == 16 and [one["measured"] for one in found["trials"]] == [16.0, 4.0]


@pytest.mark.planted
def test_a_profile_that_does_not_fit_is_refused_as_a_plan_refuses_it(asked):
    with pytest.raises(
        ConfigError, match=r"the fit errs by decode 30%.*; delete .*threads-1.json, or give --exploratory"
    ):
        asked(error=0.3)
    assert asked(error=0.3, exploratory=True)[0] == 0


@pytest.mark.parametrize("of", [{}, {"name": "stdlib-lm"}, {"name": LANGUAGE_MODEL, "fingerprint": "0" * 64}])
@pytest.mark.parametrize("exploratory", [False, True])
def test_a_profile_of_another_model_or_export_is_refused(asked, of, exploratory):
    with pytest.raises(ConfigError, match=r"a profile of .* in .*threads-1.json; found .*; delete it, or name another"):
        asked(of=of, exploratory=exploratory)


def test_a_profile_by_hand_is_told_by_its_name(asked, language_model):
    assert asked(of={"name": language_model.name})[0] == 0


def test_a_model_that_answers_with_no_text_is_refused_before_anything_is_profiled(asked, digits_artefact, monkeypatch):
    monkeypatch.setattr(measure, "measure_profile", lambda *_, **__: pytest.fail("profiled"))
    with pytest.raises(UserError, match="which an engine steps; found 'classify'"):
        asked(artefact=digits_artefact, profiles=None)


@pytest.mark.parametrize("error", [0.1, 0.3])
def test_a_measured_profile_is_kept_only_where_it_fits(asked, tmp_path, monkeypatch, error):
    monkeypatch.setattr(measure, "measure_profile", lambda *_, **__: profile(fit_error={"decode": error}))
    assert asked(profiles=tmp_path / "new", exploratory=True)[0] == 0
    assert (tmp_path / "new/threads-1.json").exists() == (error < 0.2)


def test_a_folder_where_no_profile_can_be_kept_is_refused_before_one_is_measured(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "measure_profile", lambda *_, **__: pytest.fail("measured"))
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"a folder to write profiles into at .*file; found .*File exists"):
        asked(profiles=tmp_path / "file")
    (tmp_path / "odd" / "threads-1.json").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"a profile at .*threads-1\.json; found no file"):
        asked(profiles=tmp_path / "odd")


def test_what_ctrl_c_left_is_printed_with_its_status_and_without_anything_valid_it_is_1(asked, capsys, monkeypatch):
    cut = Measured(value=None, problem="cut short", interrupted=True)
    monkeypatch.setattr(measurement.Bench, "measure", lambda *_: cut)
    assert asked()[0] == 130 and "no settings to recommend" in capsys.readouterr().out
    few = Measured(value=9.0, problem="17 requests are too few; 40 at least")
    monkeypatch.setattr(measurement.Bench, "measure", lambda *_: few)
    assert asked()[0] == 1 and asked(exploratory=True)[0] == 0
    assert "17 requests are too few; 40 at least" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "flags", "message"),
    [
        ("deadline_ms = 5", {}, "without deadline_ms"),
        ("", {"finalists": 0}, "--finalists from 1 to 16"),
        ("", {"duration_s": float("nan")}, "--duration-s from 1 to 600"),
        ("", {"objective": "ttft p95"}, "metric_statistic<limit"),
        *(("", {"rate": rate}, "a rate as 20") for rate in ("many", ".", "1.2.3", "1e400")),
        ("", {"seed": -1}, "--seed from 0"),
        ("", {"max_num_seqs": ()}, "at least 1 to try"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_profiled(asked, more, flags, message):
    with pytest.raises(ConfigError, match=message):
        asked(more, **flags)
