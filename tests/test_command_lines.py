"""The command lines are frozen: a change of a flag shows here first."""

import re
import subprocess
import sys

import pytest

from tests.commands import run_here

ASKING = {"--server", "--model", "--timeout-s", "--first-timeout-s", "--tries", "--json"}
DECODING = {
    *("--max-tokens", "--min-tokens"),
    *("--temperature", "--top-k", "--top-p", "--min-p", "--typical-p", "--seed", "--candidates"),
    *("--repetition-penalty", "--presence-penalty", "--frequency-penalty", "--logit-bias"),
    *("--beam-width", "--length-penalty", "--early-stopping"),
    *("--stop", "--stop-ids", "--ignore-end"),
    *("--any-json", "--json-schema", "--regex"),
    *("--echo", "--logprobs", "--top-logprobs", "--token-counts"),
    *("--draft-tokens", "--priority", "--deadline-ms"),
}
FROZEN = {
    "models list": {"--json"},
    "models describe": {"--json"},
    "models train": {"--out", "--seed"},
    "models import": {"--out", "--max-length", "--name"},
    "models explain": {"--out", "--fusion", "--discard", "--label"},
    "export onnx": {"--out", "--precision", "--calibration", "--explain", "--uint8"},
    "export torch": {"--out", "--precision"},
    "export check": {"--source", "--full", "--json", "--target"},
    "export compare": {"--out", "--precisions", "--full", "--page"},
    "export inspect": {"--html", "--json"},
    "export engine": {
        "--out",
        "--graphs",
        "--weights",
        "--hardware",
        "--version-compatible",
        "--memory-mb",
        "--tf32",
        "--attention",
        "--append-in-plugin",
    },
    "export refit": {"--engines"},
    "serving alone": set(),
    "serving engines": set(),
    "serving gateway": {
        *("--triton", "--host", "--port", "--keys", "--cors"),
        *("--timeout-s", "--first-timeout-s", "--request-timeout-s", "--drain-timeout-s", "--probe-s"),
        "--log-prompts",
    },
    "serving keys": {"--name", "--file", "--requests", "--tokens"},
    "serving profile": {
        *("--out", "--threads", "--runtime", "--device", "--gpus", "--no-served", "--slots", "--prompt-tokens"),
    },
    "serving lint": {"--command", "--json", "--rules"},
    "serving repository": {
        "--out",
        "--threads",
        "--runtime",
        "--device",
        "--implicit-state",
        "--slots",
        "--prompt-tokens",
        "--waiting",
        "--prefix-bytes",
    },
    "serving up": {
        "--repository",
        "--http-port",
        "--grpc-port",
        "--metrics-port",
        "--gateway-port",
        "--address",
        "--models",
        "--start-timeout-s",
        "--drain-timeout-s",
        "--watch-s",
        "--log",
        "--otlp",
    },
    "clients classify": {"--server", "--model", "--top", "--timeout-s", "--json"},
    "clients caption": ASKING | DECODING,
    "clients translate": ASKING | DECODING,
    "clients generate": ASKING | DECODING,
    "clients embed": {"--server", "--model", "--pooling", "--timeout-s", "--json"},
    "clients predict": {"--server", "--model", "--timeout-s"},
    "clients explain": {"--server", "--model", "--out", "--timeout-s"},
    "clients health": {"--server", "--timeout-s", "--json"},
    "clients load run": {
        *("--model", "--server", "--metrics", "--transport"),
        *("--concurrency", "--rate", "--arrivals", "--shape", "--duration-s", "--warmup-s", "--seed"),
        *("--in-process", "--slo", "--out", "--html", "--csv", "--json"),
    },
    "clients load report": {"--slo", "--html", "--csv", "--json"},
    "clients load sweep": {
        *("--rates", "--concurrency", "--duration-s"),
        *("--slo", "--runs", "--out", "--html", "--json"),
    },
    "clients load compare": {"--tolerance", "--json"},
    "clients load export-perf-analyzer": {"--out"},
    "clients load plan": {
        *("--rate", "--slo", "--slots", "--waiting", "--prompt-tokens", "--requests", "--seed", "--json"),
    },
    "quickstart": {"--build", "--repository", "--texts"},
}


def python_m(*words):
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=240)


def help_of(command):
    """What ``python -m`` with these words and ``--help`` prints."""
    shown = run_here(*command.split(), "--help")
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


@pytest.mark.parametrize("command", FROZEN)
def test_a_verb_has_its_frozen_flags(command):
    shown = help_of(command)
    flags = set(re.findall(r"(?<![\w`-])(--[a-z][a-z0-9-]*)", shown)) - {
        "--help",
        "--verbose",
        "--no-json",
        "--no-rules",
        "--no-explain",
        "--no-full",
        "--no-version-compatible",
        "--no-tf32",
        "--no-log-prompts",
    }
    options = shown.split("options", 1)[1]
    assert {flag for flag in flags if flag in options} == FROZEN[command]


@pytest.mark.parametrize("package", ["models", "export", "serving", "clients"])
def test_every_verb_of_a_package_is_frozen(package):
    verbs = set(re.search(r"{([a-z,]+)}", help_of(package)).group(1).split(","))
    assert verbs == {command.split()[1] for command in FROZEN if command.startswith(f"{package} ")}


def test_the_help_of_clients_shows_an_example_of_every_verb():
    shown = help_of("clients")
    verbs = [command.split()[1] for command in FROZEN if command.startswith("clients ")]
    assert [verb for verb in verbs if f"python -m clients {verb}" not in shown] == []


@pytest.mark.parametrize("package", ["attendant", "models", "export", "serving", "clients", "commands"])
def test_an_unknown_word_is_a_usage_error_of_the_real_process(package):
    refused = python_m(package, "fly")
    assert refused.returncode == 2
    assert "fly" in refused.stderr + refused.stdout
