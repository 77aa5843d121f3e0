"""The command lines are frozen: a change of a flag shows here first."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.run_here import run_here

TLS = {"--tls", "--ca", "--cert", "--key", "--tls-name"}
ACCESS = {"--keys", "--cors", "--allowed-hosts"}
LISTEN = {"--listen-cert", "--listen-key", "--listen-ca"}
ASKING = {"--server", "--model", "--timeout-s", "--first-timeout-s", "--tries", "--json", *TLS}
DECODING = {
    *("--max-tokens", "--min-tokens"),
    *("--temperature", "--top-k", "--top-p", "--min-p", "--typical-p", "--seed", "--n"),
    *("--repetition-penalty", "--presence-penalty", "--frequency-penalty", "--logit-bias"),
    *("--beam-width", "--length-penalty", "--early-stopping"),
    *("--stop", "--stop-token-ids", "--ignore-eos"),
    *("--json-object", "--json-schema", "--regex", "--grammar"),
    *("--parse-special", "--echo", "--logprobs", "--top-logprobs", "--token-counts"),
    *("--num-speculative-tokens", "--priority", "--deadline-ms"),
}
LOAD = {
    *("--model", "--server", "--metrics", "--transport", "--key-file", "--endpoint", "--in-process"),
    *("--duration-s", "--warmup-s", "--requests", "--seed"),
    *("--prompt", "--dataset", "--input-tokens", "--output-tokens", "--prefix-tokens", "--turns"),
}
FROZEN = {
    "models list": {"--json"},
    "models describe": {"--json"},
    "models train": {"--out", "--seed"},
    "models import": {"--out", "--max-length", "--name"},
    "models explain": {"--out", "--fusion", "--discard", "--label"},
    "export onnx": {"--out", "--precision", "--calibration", "--explain", "--uint8", "--prefill"},
    "export torch": {"--out", "--precision"},
    "export tune": {
        *("--out", "--precisions", "--prompt-tokens", "--answer-tokens", "--batch", "--threads", "--seconds"),
        "--calibration",
    },
    "verify": {"--source", "--full", "--json", "--target", "--timeout-s"},
    "compare": {"--out", "--precisions", "--full", "--page"},
    "inspect": {"--html", "--json", "--timeout-s"},
    "export tensorrt": {
        "--out",
        "--graphs",
        "--weights",
        "--hardware",
        "--version-compatible",
        "--memory-mb",
        "--tf32",
        "--attention",
        "--allow-decomposed",
        "--append-in-plugin",
    },
    "export refit": {"--engines"},
    "export precision": {
        *("--to", "--out", "--target", "--calibration", "--samples", "--sizes", "--budget", "--narrow-io"),
        *("--report", "--json", "--timeout-s"),
    },
    "export bisect": {"--to", "--tolerance", "--calibration", "--samples", "--sizes", "--json", "--timeout-s"},
    "bench offline": set(),
    "engines verify": set(),
    "engines trust": set(),
    "gateway": {
        *("--server", "--host", "--port"),
        *("--timeout-s", "--first-timeout-s", "--request-timeout-s", "--drain-timeout-s", "--probe-s"),
        "--log-prompts",
        *ACCESS,
        *TLS,
        *LISTEN,
    },
    "keys": {"--name", "--file", "--requests", "--tokens"},
    "capacity measure": {
        *(
            "--out",
            "--threads",
            "--runtime",
            "--device",
            "--gpus",
            "--no-served",
            "--max-num-seqs",
            "--max-prefill-tokens",
            "--exploratory",
        ),
    },
    "lint": {"--command", "--server-version", "--json", "--rules"},
    "repository": {
        "--out",
        "--threads",
        "--runtime",
        "--device",
        "--instances",
        "--max-num-seqs",
        "--max-prefill-tokens",
        "--max-queue-size",
        "--prefix-cache-bytes",
    },
    "serve": {
        "--repository",
        "--explain",
        "--http-port",
        "--grpc-port",
        "--metrics-port",
        "--gateway-port",
        "--host",
        "--models",
        "--start-timeout-s",
        "--drain-timeout-s",
        "--watch-s",
        "--log",
        "--otlp",
        "--admin-key-file",
        *ACCESS,
        *LISTEN,
    },
    "classify": {"--server", "--model", "--top", "--timeout-s", "--json", *TLS},
    "caption": ASKING | DECODING,
    "translate": ASKING | DECODING,
    "generate": {"--token-ids"} | ASKING | DECODING,
    "embed": {"--server", "--model", "--pooling", "--parse-special", "--timeout-s", "--json", *TLS},
    "predict": {"--server", "--model", "--timeout-s", *TLS},
    "explain": {"--server", "--model", "--out", "--timeout-s", *TLS},
    "health": {"--server", "--timeout-s", "--json", *TLS},
    "load run": {
        *("--concurrency", "--rate", "--arrivals", "--shape", "--trace", "--speed"),
        *("--slo", "--out", "--html", "--csv", "--json", "--exploratory"),
        *LOAD,
        *TLS,
    },
    "load report": {"--slo", "--html", "--csv", "--json", "--exploratory"},
    "load sweep": {
        *("--rates", "--concurrency"),
        *("--slo", "--runs", "--out", "--html", "--json", "--exploratory"),
        *LOAD,
        *TLS,
    },
    "load tune": {
        *("--goal", "--objective", "--rate", "--max-num-seqs", "--max-prefill-tokens", "--threads", "--instances"),
        *("--finalists", "--duration-s", "--requests", "--seed", "--profiles", "--json", "--exploratory"),
    },
    "load compare": {"--tolerance", "--json"},
    "capacity plan": {
        *(
            "--rate",
            "--slo",
            "--max-num-seqs",
            "--max-queue-size",
            "--max-prefill-tokens",
            "--requests",
            "--seed",
            "--json",
            "--exploratory",
        ),
    },
    "quickstart": {"--build", "--repository", "--texts"},
}


OLD = {
    "models": ("list", "describe", "train", "import", "explain"),
    "export": ("onnx", "torch", "check", "compare", "inspect", "engine", "refit"),
    "serving": ("repository", "profile", "plan", "engines", "lint", "up", "gateway", "keys", "alone"),
    "clients": ("classify", "caption", "translate", "generate", "embed", "predict", "explain", "health", "load run"),
}


def run_process(*words, cwd=ROOT):
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=240, cwd=cwd)


def help_of(*words):
    """What ``python -m`` with these words and ``--help`` prints."""
    shown = run_here(*words, "--help")
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


@pytest.mark.parametrize("command", FROZEN)
def test_a_verb_has_its_frozen_flags(command):
    options = help_of("attendant", *command.split()).split("options", 1)[1]
    flags = set(re.findall(r"(?<![\w`-])(--[a-z][a-z0-9-]*)", options))
    assert "--verbose" in flags
    assert {
        one for one in flags - {"--help", "--verbose"} if not one.startswith("--no-") or one in FROZEN[command]
    } == (FROZEN[command])


@pytest.mark.parametrize("command", FROZEN)
def test_a_flag_is_shown_with_its_type_or_its_choices_and_never_with_none(command):
    shown = help_of("attendant", *command.split())
    assert "None}" not in shown and "|" not in re.sub("[│|]$|^[│|]", "", shown, flags=re.MULTILINE).replace("│", "")


@pytest.mark.parametrize("words", [("attendant",), ("attendant", "load"), ("clients",)])
def test_files_that_a_help_names_are_there(words):
    shown = " ".join(help_of(*words).split())
    named = re.findall(r"(?<=load run )\S+\.toml|\b(?:docs|benchmarks)/[\w./-]+\.\w+", shown)
    assert named or words == ("attendant",)
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_verb_is_frozen_and_in_the_help_of_the_command():
    listed = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  +\S", help_of("attendant").split("\nverbs:\n")[1], re.MULTILINE)
    assert sorted(listed) == sorted(FROZEN)


@pytest.mark.parametrize(("package", "verb"), [(package, verb) for package, verbs in OLD.items() for verb in verbs])
def test_a_package_runs_its_verbs_by_their_old_names(package, verb):
    assert f"usage: python -m {package} {verb}" in help_of(package, *verb.split())


def test_the_help_of_clients_shows_an_example_of_every_verb():
    shown = help_of("clients")
    assert [verb for verb in OLD["clients"] if f"    attendant {verb} " not in shown] == []


@pytest.mark.parametrize("program", ["attendant", *OLD, "commands.quickstart"])
def test_an_unknown_word_is_a_usage_error_of_the_real_process(program):
    refused = run_process(program, "fly")
    assert refused.returncode == 2
    assert "fly" in refused.stderr + refused.stdout


def test_a_typo_gets_a_suggestion():
    refused = run_here("attendant", "export", "onix")
    assert refused.returncode == 2
    assert "unknown verb 'onix'; did you mean 'onnx'?" in refused.stderr


def test_the_version_is_that_of_the_distribution():
    shown = run_here("attendant", "--version")
    assert (shown.returncode, shown.stdout) == (0, f"{version('attendant')}\n")


@pytest.fixture
def folder_of_a_stranger(tmp_path):
    """A project of a user's, with packages of our names."""
    for name in ("attendant", "models", "export", "serving", "clients", "commands"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a package of the user')")
    return tmp_path


@pytest.mark.slow
def test_an_export_with_its_processes_runs_in_a_folder_that_has_packages_of_our_names(folder_of_a_stranger):
    script = Path(sys.executable).with_name("attendant")
    words = [script, "export", "onnx", "vit-tiny", "--out", "artefact"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, cwd=folder_of_a_stranger)
    assert done.returncode == 0, done.stderr
    assert (folder_of_a_stranger / "artefact" / "manifest.json").is_file()


def test_the_command_runs_in_a_folder_that_has_packages_of_our_names(folder_of_a_stranger):
    words = [Path(sys.executable).with_name("attendant"), "models", "describe", "vit-tiny"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, cwd=folder_of_a_stranger)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_runs_where_packages_have_the_names_of_our_rooms(folder_of_a_stranger):
    shutil.rmtree(folder_of_a_stranger / "attendant")  # python -m takes what it finds there
    done = run_process("attendant", "models", "list", "--json", cwd=folder_of_a_stranger)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_strangers_package_that_would_win_is_refused(folder_of_a_stranger):
    shutil.rmtree(folder_of_a_stranger / "attendant")
    shutil.rmtree(folder_of_a_stranger / "commands")
    environment = {**os.environ, "PYTHONPATH": str(folder_of_a_stranger)}  # noqa: TID251  (a process launcher)
    script = Path(sys.executable).with_name("attendant")
    done = subprocess.run([script, "models", "list"], capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 1
    assert done.stderr.startswith("error: expected the package 'models' of Attendant")
    assert str(folder_of_a_stranger) in done.stderr
