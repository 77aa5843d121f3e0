import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from models.checkpoints.place import shipped_names
from models.presets import PRESETS
from models.registry import FAMILIES
from models.verbs import train
from tests.models.checkpoints.custom_models import own_file
from tests.run_here import run_here

ROOT = Path(__file__).parent.parent.parent


def models(*words: str) -> subprocess.CompletedProcess[str]:
    return run_here("models", *words)


def run_in_process(*words: str) -> list[str]:
    """The lines of a verb, and a last one that says how it ended and whether it has imported torch."""
    script = (
        f"import runpy, sys; sys.argv = ['models', *{words!r}]\ntry: runpy.run_module('models', run_name='__main__')"
    )
    script += "\nexcept SystemExit as leaving: print('status', leaving.code, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_help_names_every_verb_and_imports_no_torch() -> None:
    *shown, last = run_in_process("--help")
    assert all(verb in "\n".join(shown) for verb in ("list", "describe", "train"))
    assert last == "status 0 False"


def test_list_imports_no_torch() -> None:
    assert run_in_process("list")[-1] == "status 0 False"


def test_list_shows_every_checkpoint_preset_and_family() -> None:
    done = models("list")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in (*shipped_names(), *PRESETS, *FAMILIES))


def test_list_as_json_counts_the_parameters() -> None:
    inventory = json.loads(models("list", "--json").stdout)
    counts = {one["name"]: one["parameters"] for one in inventory["checkpoints"] + inventory["presets"]}
    assert counts["vit-b-16"] == 86567656
    assert counts["digits-vit"] == 136138
    assert [one["name"] for one in inventory["families"]] == list(FAMILIES)
    gpt2 = next(one for one in inventory["presets"] if one["name"] == "gpt2")
    assert gpt2 == {
        "name": "gpt2",
        "family": "decoder",
        "task": "generate",
        "parameters": 124439808,
        "GMAC": 16.11409,
        "compared with": "transformers GPT-2",
    }


@pytest.mark.parametrize("name", ["digits-vit", "transformer-tiny"])
def test_describe_as_json_holds_the_configuration_the_parts_and_the_graphs(name: str) -> None:
    value = json.loads(models("describe", name, "--json").stdout)
    graphs = {"vit": ["model"], "seq2seq": ["encoder", "decoder"]}[value["family"]]
    assert [graph["name"] for graph in value["graphs"]] == graphs
    assert sum(value["parts"].values()) == value["parameters"]
    assert value["config"]["layers"] > 0
    assert value["weights"] == ("trained" if name in shipped_names() else "random")


def test_describe_says_whose_the_weights_of_a_file_are(tmp_path: Path) -> None:
    value = json.loads(models("describe", str(own_file(tmp_path)), "--json").stdout)
    assert (value["name"], value["weights"]) == ("pooled", "the file's own")


def test_train_without_a_folder_leaves_the_shipped_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = []

    def train_checkpoint(task: object, folder: Path, *_: object) -> object:
        places.append(folder)
        return SimpleNamespace(metric="", score="", command="", seconds=0.0)

    monkeypatch.setattr("models.train.command.train_checkpoint", train_checkpoint)
    assert train("digits-vit") == train("digits-vit", tmp_path) == 0
    assert places == [Path("build/trained/digits-vit"), tmp_path]


def test_describe_shows_every_tensor_of_every_graph() -> None:
    done = models("describe", "dates-transformer")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(word in done.stdout for word in ("source_ids", "cross_01_value", "self_00_key_out", "trained"))


@pytest.mark.parametrize("words", [("train", "no-such-model"), ("describe", "no-such-model")])
def test_an_unknown_name_ends_with_status_2_and_one_line(words: tuple[str, ...]) -> None:
    done = models(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "'no-such-model'" in done.stderr


@pytest.mark.parametrize("words", [(), ("train",), ("fly",), ("train", "digits-vit", "--seed", "x")])
def test_a_wrong_command_line_ends_with_status_2(words: tuple[str, ...]) -> None:
    assert models(*words).returncode == 2


def test_verbose_adds_the_traceback() -> None:
    done = models("train", "no-such-model", "--verbose")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: unknown checkpoint 'no-such-model'; ")


def test_train_refuses_a_folder_that_holds_other_things(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    done = models("train", "digits-vit", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "thesis.tex" in done.stderr.splitlines()[-1]
