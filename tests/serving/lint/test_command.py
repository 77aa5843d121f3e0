"""Rules on the command line of a server."""

from pathlib import Path

import pytest
import yaml

from attendant.errors import UserError
from serving.lint.check import check_command
from serving.lint.command import parse_command, parse_flags
from serving.lint.registry import COMMAND_RULES
from serving.triton.server.command import command_line
from serving.triton.server.installation import Installation
from serving.triton.server.settings import ServerSettings

CALLS = "shared-memory,model-repository,trace,logging"
KEPT = f"--grpc-restricted-protocol={CALLS}:admin=s --http-restricted-api={CALLS}:admin=s"
LOCAL = f"--http-address=127.0.0.1 --grpc-address=127.0.0.1 --metrics-address=127.0.0.1 {KEPT}"
OPEN_METRICS = f"--http-address=127.0.0.1 --grpc-address=127.0.0.1 --metrics-address=0.0.0.0 {KEPT}"
IMAGE = "docker run nvcr.io/nvidia/tritonserver:{}-py3 tritonserver"
OTHERS = {"address", "open-changes"}  # a command without any of their flags breaks these too
KEYS = "--grpc-restricted-protocol=model-repository:admin=s --http-restricted-api=metadata,model-repository:admin=s"
CASES = {  # rule: (broken, sound)
    "address": (OPEN_METRICS, LOCAL),
    "model-control": ("--model-control-mode=explicit", f"--model-control-mode=explicit {LOCAL}"),
    "model-polling": (f"--model-control-mode=poll {LOCAL}", f"--model-control-mode=none {LOCAL}"),
    "client-shm": ("--allow-client-shm=true", f"--allow-client-shm=true {LOCAL}"),
    "open-changes": (LOCAL.replace("shared-memory,", "", 1), LOCAL),
    "known-vulnerabilities": (f"{IMAGE.format('24.10')} {LOCAL}", f"{IMAGE.format('26.03')} {LOCAL}"),
    "restricted-form": (f"{LOCAL} --http-restricted-api=a,admin=s", f"{LOCAL} --http-restricted-api=a:admin=s"),
}


def names(text):
    return {problem.rule.name for problem in check_command(parse_command(text))}


@pytest.mark.parametrize("name", CASES)
def test_a_command_that_breaks_a_rule_is_found(name):
    broken, _ = CASES[name]
    assert names(broken) - OTHERS == {name} - OTHERS
    assert name in names(broken)


@pytest.mark.parametrize("name", CASES)
def test_a_command_that_keeps_it_breaks_none(name):
    _, sound = CASES[name]
    assert names(sound) == set()


def test_every_rule_on_commands_has_one_that_breaks_it():
    assert CASES.keys() == {rule.name for rule in COMMAND_RULES}


@pytest.mark.parametrize("models", [("digits-vit",), ("digits-swin", "digits-vit")])
def test_our_own_server_is_clean(models):
    installation = Installation(
        server=Path("/wheel/bin/tritonserver"),
        backends=Path("/wheel/backends"),
        stub=None,
        libraries=(),
        gpu=False,
    )
    settings = ServerSettings(repository=Path("/served"))
    words = command_line(settings, installation, Path("/workspace"), "name", "regions", models)
    assert check_command(parse_flags(words)) == []


def test_our_own_container_is_warned_of_its_addresses_alone():
    service = yaml.safe_load(Path("docker-compose.yml").read_text())["services"]["triton"]
    script = service["command"][-1].replace("$$RESTRICTED", service["environment"]["RESTRICTED"])
    assert names(script.partition("exec")[2]) == {
        "address"
    }  # its ports are published on 127.0.0.1; tests/test_deployment.py


def test_a_key_closes_model_control_on_the_listener_that_asks_for_it():
    explicit = "--model-control-mode explicit"
    assert "model-control" not in names(f"{explicit} {KEYS}")
    half = f"{explicit} {KEYS.split()[0]}"
    (problem,) = [one for one in check_command(parse_command(half)) if one.rule.name == "model-control"]
    assert problem.finding.found == "explicit, open to all by http"


def test_a_listener_that_is_off_is_open_to_nobody():
    assert names(f"--allow-http=false --allow-metrics=false --grpc-address=127.0.0.1 {KEPT.split()[0]}") == set()


def test_metrics_listen_where_http_does_unless_told_otherwise():
    assert names(f"--http-address=127.0.0.1 --grpc-address=127.0.0.1 {KEPT}") == set()


def test_flags_are_read_behind_the_last_tritonserver():
    command = parse_command("docker run --name x img /opt/bin/tritonserver --http-port 8000 --http-address=::1 --x --x")
    assert command.flags == {"http-port": ("8000",), "http-address": ("::1",), "x": ("true", "true")}


def test_a_script_is_read_as_a_shell_reads_it():
    script = (
        "#!/bin/sh\n# don't\nexec tritonserver \\\n  --http-port \\\n  8000 --http-address=::1  # it's this machine\n"
    )
    assert parse_command(script).flags == {"http-port": ("8000",), "http-address": ("::1",)}


def test_a_secret_is_not_shown():
    broken = parse_command(f"{LOCAL} --grpc-restricted-protocol=a,admin=hunter2")
    assert "hunter2" not in str([problem.to_json() for problem in check_command(broken)])


@pytest.mark.parametrize("text", ["", "  ", "# nothing"])
def test_a_command_line_without_a_word_is_refused(text):
    with pytest.raises(UserError, match="a command line; found nothing"):
        parse_command(text)


def test_a_quotation_without_an_end_is_refused():
    with pytest.raises(UserError, match="quotation"):
        parse_command("tritonserver --id='a")


@pytest.mark.parametrize("listener", ["http", "grpc"])
@pytest.mark.parametrize("call", CALLS.split(","))
def test_each_call_that_changes_a_server_is_missed_on_each_listener_on_this_machine_too(listener, call):
    flag = f"--{'http-restricted-api' if listener == 'http' else 'grpc-restricted-protocol'}"
    kept = ",".join(one for one in CALLS.split(",") if one != call)
    text = LOCAL.replace(f"{flag}={CALLS}", f"{flag}={kept}")
    (problem,) = check_command(parse_command(text))
    assert (problem.rule.name, problem.finding.where, problem.finding.found) == (
        "open-changes",
        flag,
        f"open to all: {call}",
    )
