"""A supervised server while one of its models is loaded anew, or its folders are away."""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from dataclasses import replace

import pytest
import tritonclient.grpc as triton

from clients.canary import CanaryResult
from clients.served_model import ServedModel
from serving import backoff
from serving.processes import process_of
from serving.triton.server import model_watch, process, supervisor
from serving.triton.server.model_watch import ModelWatch, ServerPulse
from serving.triton.server.shared_memory import DIRECTORY
from serving.triton.server.workers import Worker, server_of, workers_of
from serving.triton.server.wrong_models import WrongModels
from tests.serving.triton.server import sample_models
from tests.serving.triton.server.test_supervisor import PATIENCE_S, doubles, supervised, until


def test_a_model_that_is_away_while_the_server_is_replaced_is_named_and_served_once_it_is_back(settings, capsys):
    away = settings.repository.with_name("away")

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert not lacks[0]
        (settings.repository / "double").rename(away)
        server_of(servers[0].group).kill()
        await until(lambda: len(servers) == 2)
        assert list(lacks[1]) == ["double"]
        away.rename(settings.repository / "double")
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert doubles(triton.InferenceServerClient(servers[1].endpoints.grpc))

    supervised(settings, scenario)


@pytest.mark.planted
def test_so_is_one_that_was_being_copied_while_the_server_was_replaced(settings, capsys):
    version = settings.repository / "double" / "1"
    away = settings.repository.parent / "1"

    async def scenario(servers, lacks):
        await until(lambda: servers)
        version.rename(away)
        version.mkdir()
        server_of(servers[0].group).kill()
        await until(lambda: len(servers) == 2)
        assert list(lacks[1]) == ["double"]
        version.rmdir()
        away.rename(version)
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert doubles(triton.InferenceServerClient(servers[1].endpoints.grpc))

    supervised(settings, scenario)


@pytest.mark.planted
def test_one_with_a_second_version_is_back_once_its_worker_has_died(settings, capsys):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        shutil.copytree(settings.repository / "double" / "1", settings.repository / "double" / "2")
        for worker in workers_of(servers[0].group):
            if worker.model == "double":
                worker.kill()
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert doubles(triton.InferenceServerClient(servers[0].endpoints.grpc))

    supervised(settings, scenario)


def test_one_that_is_not_loaded_at_a_start_is_not_taken_for_tried(settings, monkeypatch):
    """Else one that was mended while the server was started anew waits for its pause."""
    loaded = []

    class Wrong(WrongModels):
        def names(self):
            return {"double"}

        def load(self, name):
            loaded.append(name)

    monkeypatch.setattr(supervisor, "WrongModels", Wrong)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert loaded[0] == "tokens" and "double" in lacks[0]

    supervised(settings, scenario)


def test_folders_that_cannot_be_removed_at_first_are_removed_at_the_end(settings, monkeypatch):
    lacking, folders, remove = [True], [], shutil.rmtree
    monkeypatch.setattr(
        process.shutil, "rmtree", lambda path, ignore_errors: None if lacking else remove(path, ignore_errors)
    )

    async def scenario(servers, lacks):
        for number in range(1, 4):
            await until(lambda count=number: len(servers) == count)
            folders.append(servers[-1].log.parent)
            if number < 3:
                server_of(servers[-1].group).kill()
        assert all(folder.exists() for folder in folders)
        lacking.clear()

    supervised(settings, scenario)
    assert len(folders) == 3 and not any(folder.exists() for folder in folders)


@pytest.mark.patient
@pytest.mark.planted
def test_a_model_whose_worker_is_killed_as_it_is_born_is_back_soon(settings, capsys):
    """Whether Triton notices is a matter of milliseconds; where it does not, the server is replaced."""

    async def scenario(servers, lacks):
        await until(lambda: servers)
        killed, reported = set(), ""

        def newborn():
            return [one for one in workers_of(servers[-1].group) if one.model == "double" and one.pid not in killed]

        async def kill_next():
            while not (born := newborn()):
                await asyncio.sleep(0.005)
            os.kill(born[0].pid, signal.SIGKILL)
            killed.add(born[0].pid)

        await kill_next()
        await kill_next()
        ends_s = time.monotonic() + PATIENCE_S
        while "double answers again" not in reported:
            assert time.monotonic() < ends_s, reported
            await asyncio.sleep(0.05)
            reported += capsys.readouterr().err
        assert doubles(triton.InferenceServerClient(servers[-1].endpoints.grpc))

    supervised(settings, scenario)


def pids(group):
    return {worker.pid for worker in workers_of(group) if worker.model == "double"}


@pytest.mark.planted
def test_a_model_that_another_has_loaded_is_not_loaded_again(settings, capsys):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        before = pids(servers[0].group)
        await asyncio.to_thread(client.load_model, "double", headers=dict(servers[0].admin_key.grpc_metadata))
        await until(lambda: before.isdisjoint(pids(servers[0].group)))
        loaded = pids(servers[0].group)
        await asyncio.sleep(1.5)  # seven looks
        assert loaded == pids(servers[0].group)
        assert "loaded anew" not in capsys.readouterr().err
        (worker,) = [one for one in workers_of(servers[0].group) if one.model == "double"]
        worker.kill()
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert doubles(client)

    supervised(settings, scenario)


@pytest.mark.planted
def test_so_is_one_of_two_instances_which_end_one_after_the_other(settings, capsys):
    config = settings.repository / "double" / "config.pbtxt"
    config.write_text(config.read_text().replace("count: 1", "count: 2"))
    body = settings.repository / "double" / "1" / "model.py"
    # Triton waits for what each still has to answer.
    body.write_text(body.read_text() + "\n    def finalize(self):\n        __import__('time').sleep(1)\n")

    async def scenario(servers, lacks):
        await until(lambda: servers)
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        key = dict(servers[0].admin_key.grpc_metadata)
        for _ in range(2):
            before = pids(servers[0].group)
            body.touch()
            await asyncio.to_thread(client.load_model, "double", headers=key)
            loaded = pids(servers[0].group) - before
            await until(lambda before=before: before.isdisjoint(pids(servers[0].group)))
            await asyncio.sleep(1.5)  # seven looks
            assert len(loaded) == 2 and loaded == pids(servers[0].group) and len(servers) == 1
            assert "loaded anew" not in capsys.readouterr().err
        process_of(min(loaded)).kill()
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert doubles(client)

    supervised(settings, scenario)


@pytest.mark.planted
def test_a_worker_that_others_loaded_is_watched_while_the_one_before_still_answers(settings, capsys):
    body = settings.repository / "double" / "1" / "model.py"
    body.write_text(body.read_text() + "\n    def finalize(self):\n        __import__('time').sleep(20)\n")

    async def scenario(servers, lacks):
        await until(lambda: servers)
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        before = pids(servers[0].group)
        body.touch()
        await asyncio.to_thread(client.load_model, "double", headers=dict(servers[0].admin_key.grpc_metadata))
        await asyncio.sleep(model_watch.ADOPT_S + 1)
        (loaded,) = pids(servers[0].group) - before
        assert before < pids(servers[0].group), "the one before is still there"
        killed_s = time.monotonic()
        process_of(loaded).kill()
        await until(lambda: f"its worker {loaded} died" in capsys.readouterr().err)
        assert time.monotonic() - killed_s < 10

    supervised(settings, scenario)


@pytest.mark.planted
def test_one_of_two_instances_that_is_stopped_is_noticed_though_the_other_works(settings, capsys):
    config = settings.repository / "double" / "config.pbtxt"
    config.write_text(config.read_text().replace("count: 1", "count: 2"))
    body = settings.repository / "double" / "1" / "model.py"
    work = "import threading\ndef work():\n    while True:\n        sum(range(1_000_000))\n"
    body.write_text(f"{body.read_text()}\n{work}threading.Thread(target=work, daemon=True).start()\n")

    async def scenario(servers, lacks):
        await until(lambda: servers)
        os.kill(min(pids(servers[0].group)), signal.SIGSTOP)
        await until(lambda: "double is loaded anew: its worker is stopped" in capsys.readouterr().err)
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert doubles(triton.InferenceServerClient(servers[0].endpoints.grpc))

    supervised(settings, scenario)


@pytest.mark.planted
@pytest.mark.parametrize("pause_s", [0.0, 0.3, 1.5])
def test_a_model_that_another_unloads_is_left_to_whom_loads_it_again(settings, capsys, pause_s):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        key = dict(servers[0].admin_key.grpc_metadata)
        await asyncio.to_thread(client.unload_model, "double", headers=key)
        await asyncio.sleep(pause_s)
        await asyncio.to_thread(client.load_model, "double", headers=key)
        loaded = pids(servers[0].group)  # one that is ending may be among them
        assert doubles(client)
        await asyncio.sleep(1.5)  # seven looks
        assert set() < pids(servers[0].group) <= loaded and len(servers) == 1
        assert "loaded anew" not in capsys.readouterr().err
        (worker,) = [one for one in workers_of(servers[0].group) if one.model == "double"]
        worker.kill()
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert doubles(client)

    supervised(settings, scenario)


@pytest.mark.planted
def test_so_is_a_generative_one_whose_worker_of_before_has_not_ended(settings, repository_of_two, capsys):
    settings = replace(settings, repository=repository_of_two)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        key = dict(servers[0].admin_key.grpc_metadata)
        for _ in range(4):
            await asyncio.to_thread(client.unload_model, "dates-transformer", headers=key)
            await asyncio.to_thread(client.load_model, "dates-transformer", headers=key)
            await asyncio.sleep(2.5)  # in which the worker of before ends
            assert client.is_model_ready("dates-transformer")
        assert "loaded anew" not in capsys.readouterr().err and len(servers) == 1

    supervised(settings, scenario)


class Exchanged:
    """A client of a server on which somebody exchanges a model between two answers."""

    def __init__(self, *served):
        self.served = list(served)

    async def model(self, name):
        return self.served.pop(0) if len(self.served) > 1 else self.served[0]


SIZES = {"decoupled": False, "max_batch": 1, "inputs": {}, "outputs": {}, "dtypes": {}}


@pytest.mark.planted
@pytest.mark.parametrize(("instances", "watched"), [(1, [8]), (2, [5, 8]), (0, [7, 5, 8])])
def test_workers_of_loads_before_which_still_answer_are_not_watched(monkeypatch, instances, watched):
    """Else the end of one, once it has answered, is taken for the death of one of the model's."""
    workers = [Worker(model="m", pid=pid, started=started, region="") for pid, started in ((5, 20), (8, 30), (7, 10))]
    others = Worker(model="other", pid=9, started=40, region="")
    monkeypatch.setattr(model_watch, "workers_of", lambda group: [*workers, others])
    watch = ModelWatch("m", 0, None, print, ServerPulse(), None)
    found = watch._workers_of(ServedModel(name="m", parameters={}, instances=instances, **SIZES))
    assert [worker.pid for worker in found] == watched


def test_a_model_is_not_wrong_by_the_example_of_the_one_before(monkeypatch):
    asked = []

    async def check(client, model):
        asked.append(model)
        return CanaryResult(found="new", right=model is new)

    monkeypatch.setattr(model_watch, "check_answer", check)
    monkeypatch.setattr(model_watch, "FAILURES", 1)
    old, new = (ServedModel(name="m", parameters={"example": {"answer": one}}, **SIZES) for one in ("old", "new"))

    async def look():
        watch = ModelWatch("m", 0, Exchanged(new), print, ServerPulse(), None)
        watch._served = old
        return await watch._answer_example(), watch.is_wrong, await watch._answer_example()

    assert asyncio.run(look()) == ("", False, "") and asked == [old, new]


@pytest.mark.planted
def test_a_server_is_not_replaced_because_its_regions_cannot_be_looked_at(settings, monkeypatch):
    def narrow(name):
        raise OSError(24, "Too many open files")

    async def scenario(servers, lacks):
        await until(lambda: servers)
        monkeypatch.setattr(process, "narrow_regions", narrow)
        await asyncio.sleep(1.5)  # seven looks
        assert len(servers) == 1 and doubles(triton.InferenceServerClient(servers[0].endpoints.grpc))

    supervised(settings, scenario)


@pytest.mark.planted
def test_a_model_that_waits_to_be_loaded_anew_refuses_at_once(settings, capsys, monkeypatch):
    monkeypatch.setattr(backoff, "FIRST_S", 8.0)  # of a second failure

    async def scenario(servers, lacks):
        await until(lambda: servers)
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        for answers in (True, False):
            (worker,) = [one for one in workers_of(servers[0].group) if one.model == "double"]
            worker.kill()
            if answers:
                await until(lambda: "double answers again" in capsys.readouterr().err)
        killed_s = time.monotonic()
        await until(lambda: not client.is_model_ready("double"))
        assert time.monotonic() - killed_s < 7.0 and "answers again" not in capsys.readouterr().err
        await until(lambda: "double answers again" in capsys.readouterr().err)

    supervised(settings, scenario)


def test_no_other_user_may_read_the_shared_memory_of_a_model_also_once_it_was_started_anew(settings):
    async def scenario(servers, lacks):
        def modes(dead):
            with contextlib.suppress(FileNotFoundError):  # of one that is being born
                living = [one for one in workers_of(servers[0].group) if one.pid != dead]
                return [(DIRECTORY / one.region).stat().st_mode & 0o777 for one in living]

        await until(lambda: servers)
        workers = workers_of(servers[0].group)
        assert workers and modes(dead=None) == [0o600] * len(workers)
        (worker,) = [one for one in workers if one.model == "double"]
        worker.kill()
        await until(lambda: modes(dead=worker.pid) == [0o600] * len(workers))

    supervised(settings, scenario)


@pytest.mark.patient
@pytest.mark.planted
def test_a_model_whose_worker_is_stopped_as_it_is_born_is_back_soon(settings, capsys):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        (worker,) = [one for one in workers_of(servers[0].group) if one.model == "double"]
        worker.kill()
        others = {worker.pid}  # which may still be ending
        while not (born := [o for o in workers_of(servers[0].group) if o.model == "double" and o.pid not in others]):
            await asyncio.sleep(0.005)
        os.kill(born[0].pid, signal.SIGSTOP)
        await until(lambda: len(servers) == 2 and workers_of(servers[1].group))
        await until(lambda: "double answers again" in capsys.readouterr().err)

    supervised(settings, scenario)


@pytest.mark.patient
def test_a_model_whose_worker_stands_still_for_a_while_as_it_is_loaded_is_back_soon(settings, capsys):
    """Triton waits without end for some of these, though they go on."""
    late = f"import time\n{sample_models.DOUBLE}\n    def initialize(self, args):\n        time.sleep(2)\n"
    sample_models.write(settings.repository, "late", sample_models.DOUBLE_CONFIG, late)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        for pause_s in (0.5, 1.0):
            (worker,) = [one for one in workers_of(servers[-1].group) if one.model == "late"]
            worker.kill()
            while not (born := [one for one in workers_of(servers[-1].group) if one.model == "late" and one.lives]):
                await asyncio.sleep(0.005)
            await asyncio.sleep(pause_s)
            os.kill(born[0].pid, signal.SIGSTOP)
            await asyncio.sleep(2.5)
            with contextlib.suppress(ProcessLookupError):
                os.kill(born[0].pid, signal.SIGCONT)
            began_s, said = time.monotonic(), ""
            while "late answers again" not in said:
                said += capsys.readouterr().err
                if len(servers) > 1 and not lacks[-1]:
                    break
                assert time.monotonic() < began_s + PATIENCE_S, said
                await asyncio.sleep(0.05)

    supervised(settings, scenario)
