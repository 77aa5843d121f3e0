"""A model for whose worker tritonserver 2.51 would wait without end, in a server that goes on without it."""

import asyncio
import subprocess
import sys

import tritonclient.grpc as triton

from serving.triton.server import model_folders, model_watch, stub_births
from tests.serving.triton.server.test_supervisor import Asker, doubles, supervised, until


def test_a_worker_that_is_dead_before_its_first_word_takes_no_other_model_away(settings, capsys, monkeypatch):
    """At a start and as it is loaded anew, though nothing has seen that it lacks its Python file."""
    for module in (model_folders, model_watch):
        monkeypatch.setattr(module, "unfit", lambda folder: "")
    file = settings.repository / "tokens" / "1" / "model.py"
    away, said = file.with_name("away"), [""]
    file.rename(away)

    def has_said(line):
        said[0] += capsys.readouterr().err
        return line in said[0]

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert list(lacks[0]) == ["tokens"] and "is not healthy" in lacks[0]["tokens"]
        others = Asker(servers[0].endpoints.grpc)
        others.start()
        await asyncio.sleep(10.0)  # another load has begun, and failed
        away.rename(file)
        await until(lambda: has_said("tokens answers again"))
        others.leaving.set()
        others.join()
        assert others.good > 20 and others.errors == []
        assert len(servers) == 1 and doubles(triton.InferenceServerClient(servers[0].endpoints.grpc))

    supervised(settings, scenario)


def test_while_one_is_being_started_none_is_taken_for_dead():
    """It is the server's double until it has become another program."""
    code = (
        "import sys; open('/proc/self/comm', 'w').write('tritonserver'); print(flush=True); next(iter(sys.stdin), None)"
    )

    def server(**group):
        words = [sys.executable, "-c", code]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **group)
        process.stdout.readline()
        return process

    with server(process_group=0) as first:
        assert "tritonserver" in stub_births._command_lines(first.pid)
        with server(process_group=first.pid) as second:
            assert stub_births._command_lines(first.pid) == ""
            second.stdin.close()
        assert "tritonserver" in stub_births._command_lines(first.pid)
        first.stdin.close()
