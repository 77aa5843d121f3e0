"""A run survives its file; a file that is none, or of another version, is refused by name."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from attendant.errors import ArtefactError, OutputError
from clients.load.analysis.summary import summarize
from clients.load.record import RequestOutcome
from clients.load.run_file import FORMAT, VERSION, read_run, require_writable, write_run
from clients.load.scenario_file import read_scenario
from tests.clients.load.simulated import records, run_of


@pytest.fixture
def written(tmp_path):
    found = records(count=30, tokens=4)
    found[3] = replace(found[3], outcome=RequestOutcome.ERROR, error="UNAVAILABLE: naïve", responses_s=(), tokens=())
    run = run_of(found, seed=7, arrivals={"kind": "poisson", "rate": 50.0})
    write_run(run, tmp_path / "made" / "run.json")
    return run, tmp_path / "made" / "run.json"


def test_a_run_is_read_as_it_was_written(written):
    run, path = written
    assert read_run(path) == run


def test_a_run_without_server_counts_is_read_as_it_was_written(tmp_path):
    run = run_of(records(count=3), server=None, in_process_s=())
    write_run(run, tmp_path / "run.json")
    assert read_run(tmp_path / "run.json") == run


def test_a_truncated_file_is_refused(written):
    _, path = written
    path.write_text(path.read_text()[:-200])
    with pytest.raises(ArtefactError, match=r"whole JSON in .*run.json; found text that ends"):
        read_run(path)


def test_another_version_is_refused(written):
    _, path = written
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": VERSION + 1}))
    with pytest.raises(ArtefactError, match=f"version {VERSION} .* found version {VERSION + 1}"):
        read_run(path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": "other"}'])
def test_json_of_another_kind_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ArtefactError, match="JSON of another kind"):
        read_run(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ArtefactError, match=r"none\.json"):
        read_run(tmp_path / "none.json")


@pytest.mark.parametrize("spoil", [lambda run: run.pop("generator"), lambda run: run["records"]["sent_s"].pop()])
def test_a_run_that_lacks_something_is_refused(written, spoil):
    _, path = written
    whole = json.loads(path.read_text())
    spoil(whole["run"])
    path.write_text(json.dumps({"format": FORMAT, "version": VERSION, "run": whole["run"]}))
    with pytest.raises(ArtefactError, match="every field"):
        read_run(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("ended_s", 1e308), ("scheduled_s", -1e300), ("responses_s", []), ("tokens", [1])),
        *(("tokens", [2**62] * 4), ("tokens", [-5] * 4), ("input_tokens", -1), ("images", 2**62)),
    ],
)
def test_numbers_that_no_run_has_are_refused(written, column, value):
    _, path = written
    content = json.loads(path.read_text())
    content["run"]["records"][column] = [value] * 30
    path.write_text(json.dumps(content))
    with pytest.raises(ArtefactError, match="every field of a run"):
        read_run(path)


def test_a_place_that_cannot_be_written_is_refused(written, tmp_path):
    run, path = written
    with pytest.raises(OutputError, match="choose another path"):
        write_run(run, path / "below a file")


def test_a_place_is_claimed_without_harm_to_what_lies_there(written, tmp_path):
    run, path = written
    require_writable(path, None, tmp_path / "new" / "page.html")
    assert read_run(path) == run
    with pytest.raises(OutputError, match="a place to write at"):
        require_writable(tmp_path)


def test_the_example_is_a_valid_run_of_the_scenario_beside_it():
    examples = Path(__file__).parents[3] / "docs" / "examples"
    run, scenario = read_run(examples / "load-run.json"), read_scenario(examples / "load-run.toml")
    assert summarize(run).validity.valid
    assert run.scenario["name"] == scenario.name
    assert run.scenario["arrivals"] == scenario.plain()["arrivals"]


@pytest.mark.planted
def test_a_run_that_cannot_be_written_leaves_the_former_one_whole(written, monkeypatch):
    run, path = written
    before = path.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OutputError, match="no room"):
        write_run(run, path)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path):
    require_writable(tmp_path / "new" / "run.json")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("records", "ended_s", 0), "soon"),
        (("records", "tokens", 0), [None]),
        (("records", "error", 0), 7),
        (("generator", "loop_lags_s"), [[]]),
        (("server", "queue_s"), "long"),
        (("environment",), []),
        (("duration_s",), None),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused(written, place, value):
    _, path = written
    content = json.loads(path.read_text())
    within = content["run"]
    for name in place[:-1]:
        within = within[name]
    within[place[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(ArtefactError, match=r"every field of a run in .*; found ValidationError: "):
        read_run(path)
