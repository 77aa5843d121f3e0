"""The command lines are frozen: a change of a flag shows here first."""

import re
import subprocess
import sys

import pytest

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
    },
    "export refit": {"--engines"},
    "serving engines": set(),
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
        "--address",
        "--models",
        "--start-timeout-s",
        "--drain-timeout-s",
        "--watch-s",
        "--log",
    },
    "clients classify": {"--server", "--model", "--top", "--timeout-s", "--json"},
    "clients caption": ASKING | DECODING,
    "clients translate": ASKING | DECODING,
    "clients generate": ASKING | DECODING,
    "clients embed": {"--server", "--model", "--pooling", "--timeout-s", "--json"},
    "clients predict": {"--server", "--model", "--timeout-s"},
    "clients explain": {"--server", "--model", "--out", "--timeout-s"},
    "clients health": {"--server", "--timeout-s", "--json"},
    "quickstart": {"--build", "--repository", "--texts"},
}


def python_m(*words):
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", FROZEN)
def test_a_verb_has_its_frozen_flags(command):
    shown = python_m(*command.split(), "--help")
    assert shown.returncode == 0, shown.stderr
    flags = set(re.findall(r"(?<![\w`-])(--[a-z][a-z0-9-]*)", shown.stdout)) - {
        "--help",
        "--verbose",
        "--no-json",
        "--no-rules",
        "--no-explain",
        "--no-full",
        "--no-version-compatible",
        "--no-tf32",
    }
    options = shown.stdout.split("options", 1)[1]
    assert {flag for flag in flags if flag in options} == FROZEN[command]


@pytest.mark.parametrize("package", ["models", "export", "serving", "clients"])
def test_every_verb_of_a_package_is_frozen(package):
    shown = python_m(package, "--help").stdout
    verbs = set(re.search(r"{([a-z,]+)}", shown).group(1).split(","))
    assert verbs == {command.split()[1] for command in FROZEN if command.startswith(f"{package} ")}


def test_the_help_of_clients_shows_an_example_of_every_verb():
    shown = python_m("clients", "--help").stdout
    verbs = [command.split()[1] for command in FROZEN if command.startswith("clients ")]
    assert [verb for verb in verbs if f"python -m clients {verb}" not in shown] == []


@pytest.mark.parametrize("package", ["models", "export", "serving", "clients"])
def test_an_unknown_verb_is_a_usage_error(package):
    refused = python_m(package, "fly")
    assert refused.returncode == 2
    assert "fly" in refused.stderr + refused.stdout
