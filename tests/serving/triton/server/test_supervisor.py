"""A supervised server, whose Python processes are killed or held up."""

import os
import signal
from dataclasses import replace

import pytest
from tritonclient.utils import InferenceServerException

from attendant.errors import ServerError
from serving.triton.server.process import TritonServer
from serving.triton.server.supervisor import Supervision, supervise
from tests.serving.triton.server.test_process import READY_S, _doubles, _processes


def told(endpoints):
    """The check, whose errors are ours, as those of canaries are."""
    try:
        _doubles(endpoints, timeout_s=5.0)  # what hangs is to be found soon
    except InferenceServerException as error:
        raise ServerError("an answer", str(error), "none") from error


SUPERVISION = Supervision(check=told, start_timeout_s=READY_S, watch_s=0.2)


class EnoughError(Exception):
    """Ends the supervision, as Ctrl-C would."""


def harmed_once(settings, harm, supervision=SUPERVISION):
    """The servers that there were, where the first one's stubs met a signal, and the second was fine."""
    servers = []

    def on_ready(server):
        servers.append(server)
        if len(servers) == 2:
            raise EnoughError
        harm(server)

    with pytest.raises(EnoughError):
        supervise(lambda: TritonServer(settings), supervision, on_ready)
    return servers


def signalled(number, name="triton_python_backend_stub"):
    def harm(server):
        for pid in _processes(server, name):
            os.kill(pid, number)

    return harm


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        pytest.param(signalled(signal.SIGKILL), "is not healthy", id="dead stubs", marks=pytest.mark.slow),
        pytest.param(signalled(signal.SIGSTOP), "is not healthy", id="hanging stubs", marks=pytest.mark.slow),
        pytest.param(signalled(signal.SIGKILL, "tritonserver"), f"ended with {-signal.SIGKILL}", id="dead server"),
    ],
)
def test_a_server_whose_model_answers_no_more_is_replaced(settings, capsys, harm, reason):
    first, second = harmed_once(settings, harm)
    assert first.returncode is not None and first.name != second.name
    line = capsys.readouterr().err
    assert line.startswith("starting the server anew: ") and reason in line


def test_a_server_that_fails_again_and_again_is_given_up(settings):
    supervision = replace(SUPERVISION, restarts=1)
    with pytest.raises(ServerError, match="at most 1 servers replaced in an hour; found one more: it ended with -9"):
        supervise(lambda: TritonServer(settings), supervision, signalled(signal.SIGKILL, "tritonserver"))


def test_without_a_watch_an_ended_server_ends_the_supervision(settings):
    with pytest.raises(ServerError, match="it ended with -9"):
        supervise(
            lambda: TritonServer(settings), replace(SUPERVISION, watch_s=0), signalled(signal.SIGKILL, "tritonserver")
        )
