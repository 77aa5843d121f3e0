"""A supervised server whose models others load and unload, by the admin key; models of several instances."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from attendant.errors import AttendantError, BusyError
from attendant.sampling_params import SamplingParams
from clients.canary import CanaryResult
from clients.served_model import ServedModel
from clients.text import TextModel
from clients.triton_client import TritonClient
from serving.processes import process_of
from serving.triton.server import model_watch
from serving.triton.server.life_signs import AT_ONCE, ServerPulse
from serving.triton.server.model_watch import ModelWatch
from serving.triton.server.workers import Worker, workers_of
from serving.triton.server.wrong_models import WrongModels
from tests.serving.triton.server import sample_models
from tests.serving.triton.server.test_supervisor import Asker, doubles, supervised, until


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


@pytest.mark.patient
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
        assert doubles(client)
        await asyncio.sleep(1)  # five looks
        body.touch()
        await asyncio.to_thread(client.load_model, "double", headers=dict(servers[0].admin_key.grpc_metadata))
        await asyncio.sleep(1)
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


@pytest.mark.patient
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


@pytest.mark.planted
def test_a_generative_one_that_answers_may_be_loaded_in_place_of_itself_again_and_again(settings, repository_of_two):
    settings, name = replace(settings, repository=repository_of_two), "dates-transformer"

    async def scenario(servers, lacks):
        await until(lambda: servers)
        key, address = dict(servers[0].admin_key.grpc_metadata), servers[0].endpoints.grpc
        loader = triton.InferenceServerClient(address)
        async with TritonClient(address) as client:
            for _ in range(6):
                model = TextModel(client, await client.model(name))
                async for _ in model.stream("3rd of march 1997", SamplingParams(max_tokens=12)):
                    pass
                os.utime(settings.repository / name / "config.pbtxt")  # else Triton has nothing to load
                await asyncio.to_thread(loader.load_model, name, headers=key)
                await asyncio.sleep(1.0)  # in which the worker of before ends
        assert len(servers) == 1 and loader.is_server_live() and loader.is_model_ready(name)

    supervised(settings, scenario)


@pytest.mark.patient
@pytest.mark.planted
def test_instances_that_come_and_go_without_a_load_are_watched_and_not_missed(settings, capsys):
    config = settings.repository / "double" / "config.pbtxt"
    one, two = (config.read_text().replace("count: 1", f"count: {count}") for count in (1, 2))

    async def scenario(servers, lacks):
        await until(lambda: servers)
        client = triton.InferenceServerClient(servers[0].endpoints.grpc)
        key = dict(servers[0].admin_key.grpc_metadata)
        for text in (two, one, two):
            before = pids(servers[0].group)
            config.write_text(text)
            await asyncio.to_thread(client.load_model, "double", headers=key)
            await asyncio.sleep(model_watch.DESCRIBED_S + 1)
        (added,) = pids(servers[0].group) - before
        assert "loaded anew" not in capsys.readouterr().err
        process_of(added).kill()
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert doubles(client) and len(pids(servers[0].group)) == 2

    supervised(settings, scenario)


@pytest.mark.planted
def test_a_load_that_fails_slowly_leaves_the_model_as_it_was(settings, capsys):
    body = settings.repository / "double" / "1" / "model.py"

    async def scenario(servers, lacks):
        await until(lambda: servers)
        others = Asker(servers[0].endpoints.grpc)
        others.start()
        before, was = pids(servers[0].group), body.read_text()
        body.write_text(was + "\n    def initialize(self, args):\n        __import__('time').sleep(4)\n        1 / 0\n")
        client, key = triton.InferenceServerClient(servers[0].endpoints.grpc), dict(servers[0].admin_key.grpc_metadata)
        with pytest.raises(InferenceServerException, match="division by zero"):
            await asyncio.to_thread(client.load_model, "double", headers=key)
        await asyncio.sleep(1.5)  # seven looks
        others.leaving.set()
        others.join()
        assert others.good > 20 and others.errors == [] and before == pids(servers[0].group)
        assert "loaded anew" not in capsys.readouterr().err

    supervised(settings, scenario)


@pytest.mark.planted
def test_so_does_one_that_begins_as_another_has_just_ended(settings, repository_of_two, capsys):
    settings, name = replace(settings, repository=repository_of_two), "digits-vit"
    body = settings.repository / name / "1" / "model.py"
    was = body.read_text()

    async def scenario(servers, lacks):
        await until(lambda: servers)
        client, key = triton.InferenceServerClient(servers[0].endpoints.grpc), dict(servers[0].admin_key.grpc_metadata)
        body.touch()
        await asyncio.to_thread(client.load_model, name, headers=key)
        body.write_text("import time\ntime.sleep(3)\n1 / 0\n")
        with pytest.raises(InferenceServerException, match="division by zero"):
            await asyncio.to_thread(client.load_model, name, headers=key)
        await asyncio.sleep(1.5)
        assert "loaded anew" not in capsys.readouterr().err and len(servers) == 1
        assert await asyncio.to_thread(client.is_model_ready, name)

    try:
        supervised(settings, scenario)
    finally:
        body.write_text(was)


@pytest.mark.planted
def test_a_busy_model_that_others_loaded_answers_its_example_all_the_same(settings, repository_of_two, capsys):
    settings, name = replace(settings, repository=repository_of_two), "dates-transformer"
    config = settings.repository / name / "config.pbtxt"

    async def ask(address, leaving):
        async with TritonClient(address) as client:
            model = TextModel(client, await client.model(name))
            while not leaving.is_set():
                with suppress(AttendantError):
                    async for _ in model.stream("3rd of march 1997 and more", SamplingParams(max_tokens=60)):
                        pass

    async def scenario(servers, lacks):
        await until(lambda: servers)
        address, leaving = servers[0].endpoints.grpc, asyncio.Event()
        asking = [asyncio.ensure_future(ask(address, leaving)) for _ in range(8)]
        config.write_text(config.read_text().replace("1997-03-03", "1997-03-04"))
        client, key = triton.InferenceServerClient(address), dict(servers[0].admin_key.grpc_metadata)
        await asyncio.to_thread(client.load_model, name, headers=key)
        began_s = time.monotonic()
        await until(lambda: f"{name} is loaded anew once its files change" in capsys.readouterr().err)
        assert time.monotonic() - began_s < 6 and not client.is_model_ready(name)
        config.write_text(config.read_text().replace("1997-03-04", "1997-03-03"))
        await until(lambda: f"{name} answers again" in capsys.readouterr().err)
        leaving.set()
        await asyncio.gather(*asking)

    supervised(settings, scenario)


@pytest.mark.patient
@pytest.mark.planted
def test_one_that_waits_behind_loads_of_models_that_others_have_added_is_not_taken_for_dead(settings, capsys):
    body = f"import time\ntime.sleep(20)\n{sample_models.DOUBLE}"
    names = {f"slow{number}" for number in range(AT_ONCE)}

    async def scenario(servers, lacks):
        await until(lambda: servers)
        server = servers[0]

        def load(name):
            client = triton.InferenceServerClient(server.endpoints.grpc)
            client.load_model(name, headers=dict(server.admin_key.grpc_metadata))

        for name in names:
            sample_models.write(settings.repository, name, sample_models.DOUBLE_CONFIG, body)
        loads = [asyncio.ensure_future(asyncio.to_thread(load, name)) for name in names]
        await until(lambda: names <= {worker.model for worker in workers_of(server.group)})
        for worker in workers_of(server.group):
            if worker.model == "double":
                worker.kill()
        await until(lambda: "double answers again" in capsys.readouterr().err)
        await asyncio.gather(*loads)
        assert servers == [server] and doubles(triton.InferenceServerClient(server.endpoints.grpc))

    supervised(settings, scenario)


class Exchanged:
    """A client of a server on which somebody exchanges a model between two answers."""

    def __init__(self, *served):
        self.served = list(served)

    async def model(self, name):
        return self.served.pop(0) if len(self.served) > 1 else self.served[0]

    async def failed_models(self):
        return {}

    async def usage(self, name):
        return 0, 0, 0


SIZES = {"decoupled": False, "max_batch": 1, "inputs": {}, "outputs": {}, "dtypes": {}}


@pytest.mark.planted
@pytest.mark.parametrize(("instances", "watched"), [(1, [8]), (2, [5, 8]), (0, [7, 5, 8])])
def test_workers_of_loads_before_which_still_answer_are_not_watched(monkeypatch, instances, watched):
    """Else the end of one, once it has answered, is taken for the death of one of the model's."""

    class Living(Worker):
        lives = True

    workers = [Living(model="m", pid=pid, started=started, region="") for pid, started in ((5, 20), (8, 30), (7, 10))]
    others = Worker(model="other", pid=9, started=40, region="")
    monkeypatch.setattr(model_watch, "workers_of", lambda group: [*workers, others])
    watch = ModelWatch("m", 0, None, print, ServerPulse(), None)
    found = watch._workers_of(ServedModel(name="m", parameters={}, instances=instances, **SIZES))
    assert [worker.pid for worker in found] == watched


def test_a_model_is_not_wrong_by_the_example_of_the_one_before(monkeypatch):
    asked = []

    async def check(client, model, though_busy):
        asked.append(model)
        return CanaryResult(found="new", right=model is new)

    monkeypatch.setattr(model_watch, "check_answer", check)
    monkeypatch.setattr(model_watch, "FAILURES", 1)
    old, new = (ServedModel(name="m", parameters={"example": {"answer": one}}, **SIZES) for one in ("old", "new"))

    async def look():
        watch = ModelWatch("m", 0, Exchanged(new), print, ServerPulse(), WrongModels(Path("none")))
        watch._served = old
        return await watch._answer_example(), watch.is_wrong, await watch._answer_example()

    assert asyncio.run(look()) == ("", False, "") and asked == [old, new]


def test_a_wrong_model_whose_example_waited_at_its_load_is_not_loaded_again_at_once(monkeypatch):
    """It would answer wrongly again, in vain, as long as its queue is full."""
    verdicts = [BusyError("a place", "none", "retry later"), CanaryResult(found="wrong", right=False)]

    async def check(client, model, though_busy):
        assert though_busy
        if isinstance(verdict := verdicts.pop(0), Exception):
            raise verdict
        return verdict

    monkeypatch.setattr(model_watch, "check_answer", check)
    watch = ModelWatch(
        "m",
        0,
        Exchanged(ServedModel(name="m", parameters={}, **SIZES)),
        print,
        ServerPulse(),
        WrongModels(Path("none")),
    )
    watch._wrong.load("m")

    async def look():
        await watch.check()
        return watch.reason, await watch._look()

    first, second = asyncio.run(look())
    assert first == "" and "found wrong" in second and watch._wrong.pause_s("m") > 5
