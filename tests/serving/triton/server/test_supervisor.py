"""A supervised server, whose processes are killed or stopped, again and again."""

import asyncio
import contextlib
import errno
import math
import os
import signal
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as triton

from attendant.errors import ConfigError, ServerError
from serving.triton.server import process
from serving.triton.server.process import TritonServer
from serving.triton.server.resource_watch import ResourceBounds
from serving.triton.server.server_watch import CRASHED_S
from serving.triton.server.supervisor import Supervision, supervise
from serving.triton.server.workers import server_of, workers_of
from tests.serving.triton.server import sample_models
from tests.serving.triton.server.test_process import READY_S

PATIENCE_S = 60.0


async def until(condition):
    ends_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends_s, "in time"
        await asyncio.sleep(0.05)


def supervised(settings, scenario, watch_s=0.2, bounds=ResourceBounds(), start_timeout_s=READY_S):  # noqa: B008
    """Run a scenario beside a supervisor; it gets the servers as they become ready, and the models that they lack."""
    servers, lacks = [], []

    def on_ready(server, failed):
        servers.append(server)
        lacks.append(dict(failed))

    async def both():
        supervision = Supervision(start_timeout_s=start_timeout_s, watch_s=watch_s, bounds=bounds)
        running = asyncio.ensure_future(supervise(lambda: TritonServer(settings), supervision, on_ready))
        part = asyncio.ensure_future(scenario(servers, lacks))
        done, _ = await asyncio.wait({running, part}, return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        await asyncio.wait({running})
        for one in done:
            one.result()

    asyncio.run(both())


@pytest.mark.parametrize("choice", [{"watch_s": math.nan}, {"watch_s": -1.0}, {"watch_s": 1e-4}, {"watch_s": math.inf}])
def test_a_watch_that_never_looks_or_does_nothing_else_is_refused(choice):
    with pytest.raises(ConfigError, match=r"watch_s of at least 0\.05, or 0"):
        Supervision(start_timeout_s=1.0, **choice)
    with pytest.raises(ConfigError, match="start_timeout_s above 0"):
        Supervision(start_timeout_s=math.nan)


def doubles(client):
    values = triton.InferInput("x", [3], "FP32").set_data_from_numpy(np.arange(3, dtype=np.float32))
    return client.infer("double", [values], client_timeout=PATIENCE_S).as_numpy("y").tolist() == [0, 2, 4]


class Asker(threading.Thread):
    """Asks one model again and again, from a thread of its own."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.good, self.errors, self.leaving = address, 0, [], threading.Event()

    def run(self):
        client = triton.InferenceServerClient(self.address)
        while not self.leaving.is_set():
            try:
                assert doubles(client)
                self.good += 1
            except Exception as error:
                self.errors.append(str(error))


@pytest.mark.planted
def test_a_dead_worker_is_replaced_while_all_other_models_answer(settings, capsys):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        (server,) = servers
        others = Asker(server.endpoints.grpc)
        others.start()
        reported = ""
        for number in range(1, 4):
            (worker,) = [one for one in workers_of(server.group) if one.model == "tokens"]
            worker.kill()
            while reported.count("tokens answers again") < number:
                await asyncio.sleep(0.05)
                reported += capsys.readouterr().err
        await until(lambda: others.good > 20)
        others.leaving.set()
        others.join()
        assert others.errors == [] and servers == [server]

    supervised(settings, scenario)


@pytest.mark.planted
def test_a_dead_server_is_started_anew_however_often_it_dies(settings, capsys):
    async def scenario(servers, lacks):
        for number in range(1, 4):
            await until(lambda count=number: len(servers) == count)
            server_of(servers[-1].group).kill()
        await until(lambda: len(servers) > number)
        assert doubles(triton.InferenceServerClient(servers[-1].endpoints.grpc))
        assert sum(server.log is not None and server.log.exists() for server in servers) <= 2, "logs pile up"

    supervised(settings, scenario)
    assert f"ended with {-signal.SIGKILL}" in capsys.readouterr().err


def test_an_end_that_comes_as_the_server_is_found_dead_leaves_no_folder(settings):
    folders = []

    async def scenario(servers, lacks):
        await until(lambda: servers)
        folders.append(servers[0].log.parent)
        server_of(servers[0].group).kill()
        while servers[0].poll() is None:  # found dead, before the supervisor hears of it
            time.sleep(0.01)

    supervised(settings, scenario)
    assert folders and not folders[0].exists()


@pytest.mark.planted
def test_a_server_that_stands_still_is_replaced_and_one_that_pauses_is_not(settings, capsys):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        process = server_of(servers[0].group)
        os.kill(process.pid, signal.SIGSTOP)
        await asyncio.sleep(1.5)
        os.kill(process.pid, signal.SIGCONT)
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        assert doubles(client) and len(servers) == 1
        os.kill(process.pid, signal.SIGSTOP)
        await until(lambda: len(servers) == 2)
        assert doubles(triton.InferenceServerClient(servers[-1].endpoints.grpc))

    supervised(settings, scenario)
    assert "it has neither worked nor answered for" in capsys.readouterr().err


@pytest.mark.patient
@pytest.mark.planted
def test_a_server_that_stands_still_while_it_loads_a_model_is_replaced(settings, capsys):
    sample_models.write(settings.repository, "slow", sample_models.DOUBLE_CONFIG, sample_models.DOUBLE)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        server = servers[0]
        slow = settings.repository / "slow" / "1" / "model.py"
        slow.write_text(sample_models.SLOW)
        (worker,) = [one for one in workers_of(server.group) if one.model == "slow"]
        worker.kill()
        await until(lambda: [one for one in workers_of(server.group) if one.model == "slow" and one.pid != worker.pid])
        os.kill(server_of(server.group).pid, signal.SIGSTOP)
        slow.write_text(sample_models.DOUBLE)
        await until(lambda: len(servers) == 2)
        assert lacks[-1] == {"slow": "its files have changed: it is loaded behind the others"}
        assert doubles(triton.InferenceServerClient(servers[-1].endpoints.grpc))
        said = []
        await until(lambda: said.append(capsys.readouterr().err) or "slow answers again" in "".join(said))
        assert "it has neither worked nor answered for" in "".join(said)

    supervised(settings, scenario)


@pytest.mark.patient
@pytest.mark.planted
def test_a_server_that_has_crashed_and_hangs_is_replaced_and_one_is_not_whose_model_says_so(settings, capsys):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        with servers[0].log.open("a") as log:
            log.write("what a model prints\nSignal (11) received.\n")
        await asyncio.sleep(2 * CRASHED_S)
        assert len(servers) == 1
        for replaced in range(1, 6):  # the handler takes half a second: too short to be stopped in, now and then
            server, log = server_of(servers[-1].group), servers[-1].log
            os.kill(server.pid, signal.SIGABRT)
            while server.lives and b"Signal (6) received." not in log.read_bytes():
                pass
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGSTOP)
            await until(lambda replaced=replaced: len(servers) == replaced + 1)
            if "it crashed, and hangs" in capsys.readouterr().err:
                return
        raise AssertionError("its hang should have been seen")

    supervised(settings, scenario)


@pytest.mark.patient
@pytest.mark.planted
def test_a_server_that_is_gone_is_replaced_though_its_guard_stands_still(settings, capsys):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        server = server_of(servers[0].group)
        os.kill(servers[0].group, signal.SIGSTOP)  # the guard, which leads the group
        server.kill()
        await until(lambda: len(servers) == 2)

    supervised(settings, scenario)


@pytest.mark.patient
@pytest.mark.planted
def test_nothing_that_the_machine_lacks_for_a_while_ends_the_supervision(settings, capsys, monkeypatch):
    launches = []

    def launch(*given):
        launches.append(given)
        if len(launches) in (2, 3):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real_launch(*given)

    real_launch = process.launch
    monkeypatch.setattr(process, "launch", launch)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        server_of(servers[0].group).kill()
        await until(lambda: len(servers) == 2)

    supervised(settings, scenario)
    assert capsys.readouterr().err.count(os.strerror(errno.EMFILE)) == 2


@pytest.mark.patient
@pytest.mark.planted
def test_a_model_that_is_never_loaded_at_the_first_start_keeps_no_other_from_being_served(settings, capsys):
    sample_models.write(settings.repository, "endless", sample_models.DOUBLE_CONFIG, "import time\ntime.sleep(1e6)\n")

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert doubles(triton.InferenceServerClient(servers[0].endpoints.grpc))

    supervised(settings, scenario, start_timeout_s=10.0)
    assert "endless is not loaded within 10 s, and its worker is ended" in capsys.readouterr().err


@pytest.mark.planted
def test_a_broken_model_is_not_served_until_it_is_mended_and_the_others_are(settings, capsys):
    sample_models.write(settings.repository, "broken", sample_models.DOUBLE_CONFIG, sample_models.BROKEN)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert list(lacks[0]) == ["broken"] and "the file decoder.onnx is not here" in lacks[0]["broken"]
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        assert doubles(client)
        mended = settings.repository / "broken" / "1" / "model.py.part"
        mended.write_text(sample_models.DOUBLE)
        mended.rename(mended.with_suffix(""))  # else it may be loaded as it is written
        reported = ""
        while "broken answers again" not in reported:
            await asyncio.sleep(0.05)
            reported += capsys.readouterr().err
        assert reported.count("broken is loaded anew") == 1
        assert client.is_model_ready("broken") and len(servers) == 1

    supervised(settings, scenario)


@pytest.mark.patient
@pytest.mark.planted
def test_a_model_that_is_never_loaded_keeps_no_other_from_being_served(settings, capsys, tmp_path):
    sample_models.write(settings.repository, "slow", sample_models.DOUBLE_CONFIG, sample_models.SLOW)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert list(lacks[0]) == ["slow"]
        assert doubles(triton.InferenceServerClient(servers[0].endpoints.grpc))

    supervised(settings, scenario, start_timeout_s=10.0)
    assert "slow is not loaded within 10 s, and its worker is ended" in capsys.readouterr().err
    assert list(tmp_path.glob("attendant_*")) == []


@pytest.mark.patient
def test_a_model_that_a_server_grew_with_is_left_alone_for_a_while(settings, capsys):
    sample_models.write(settings.repository, "broken", sample_models.DOUBLE_CONFIG, sample_models.BROKEN)

    told = []

    async def scenario(servers, lacks):
        await until(lambda: len(servers) == 2)
        await asyncio.sleep(5.0)
        told.append(capsys.readouterr().err)
        await until(lambda: len(servers) == 3)
        assert [list(one) for one in lacks] == [["broken"]] * len(lacks)

    supervised(settings, scenario, bounds=ResourceBounds(descriptors=0.0, look_s=0.5, quiet_s=0.0))
    assert "broken is not loaded for 10 s: the server failed while it was being loaded" in told[0]
    assert told[0].count("loaded anew: Internal: ValueError") == 1, "it troubles the next server"
    assert "broken is not loaded for 20 s" in capsys.readouterr().err


@pytest.mark.patient
def test_where_no_model_is_loaded_in_time_all_are_given_as_much_again(settings, capsys):
    for name in ("double", "tokens"):
        (settings.repository / name / "1" / "model.py").write_text(sample_models.SLOW)

    async def scenario(servers, lacks):
        await asyncio.sleep(PATIENCE_S)

    with pytest.raises(ServerError):
        supervised(settings, scenario, start_timeout_s=10.0)
    told = capsys.readouterr().err
    assert told.index("double is not loaded within 10 s") < told.index(
        "no model answers: loaded once more: double, tokens"
    )
    assert told.count("is not loaded within 10 s, and its worker is ended") == 4


@pytest.mark.planted
def test_a_server_none_of_whose_models_can_be_served_is_an_error(settings):
    for name in ("double", "tokens"):
        (settings.repository / name / "1" / "model.py").write_text(sample_models.BROKEN)

    async def scenario(servers, lacks):
        await asyncio.sleep(PATIENCE_S)

    with pytest.raises(ServerError, match=r"the file decoder\.onnx is not here"):
        supervised(settings, scenario)


def test_without_a_watch_an_ended_server_ends_the_supervision(settings):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        server_of(servers[0].group).kill()
        await asyncio.sleep(PATIENCE_S)

    with pytest.raises(ServerError, match="it ended with -9"):
        supervised(settings, scenario, watch_s=0)
