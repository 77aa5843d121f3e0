"""A supervised server while one of its models is loaded anew, or its folders are away."""

import asyncio
import contextlib
import os
import shutil
import signal
import time

import pytest
import tritonclient.grpc as triton

from serving import backoff
from serving.triton.server import process, server_watch, supervisor
from serving.triton.server.shared_memory import DIRECTORY
from serving.triton.server.workers import server_of, workers_of
from serving.triton.server.wrong_models import WrongModels
from tests.serving.triton.server import sample_models
from tests.serving.triton.server.test_supervisor import PATIENCE_S, Asker, doubles, supervised, until


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
@pytest.mark.slow
def test_one_without_its_python_file_is_away_alone_until_that_is_there(settings, capsys):
    """At a start, at its worker's death, at a new server: Triton would wait for it, and be replaced, without end."""
    file, said = settings.repository / "tokens" / "1" / "model.py", [""]
    away, told = file.with_name("away"), "'1/model.py' is no file in it"

    async def says(line):
        def has_said():
            said[0] += capsys.readouterr().err
            return line in said[0]

        await until(has_said)

    async def is_back_once_it_is_there(server):
        others = Asker(server.endpoints.grpc)
        others.start()
        await says(f"tokens is loaded anew once its files change: {told}")
        await asyncio.sleep(6.0)  # a dead worker is known for one that Triton waits for after 4 s
        away.rename(file)
        said[0] = ""
        await says("tokens answers again")
        others.leaving.set()
        others.join()
        assert others.good > 20 and others.errors == []
        file.rename(away)
        said[0] = ""

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert list(lacks[0]) == ["tokens"]
        await says(f"not served: tokens: {told}")
        await is_back_once_it_is_there(servers[0])
        for worker in workers_of(servers[0].group):
            if worker.model == "tokens":
                worker.kill()
        await is_back_once_it_is_there(servers[0])
        assert len(servers) == 1
        server_of(servers[0].group).kill()
        await until(lambda: len(servers) == 2)
        assert list(lacks[1]) == ["tokens"]
        await is_back_once_it_is_there(servers[1])
        assert len(servers) == 2

    file.rename(away)
    supervised(settings, scenario)


@pytest.mark.planted
def test_one_that_could_not_be_loaded_is_loaded_soon_after_its_files_have_changed(settings, capsys, monkeypatch):
    monkeypatch.setattr(backoff, "FIRST_S", 30.0)  # of a second failure
    file = settings.repository / "double" / "1" / "model.py"
    file.write_text(sample_models.BROKEN)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert list(lacks[0]) == ["double"]
        await until(lambda: "double is loaded anew" in capsys.readouterr().err)
        await asyncio.sleep(3.0)  # it has failed once more
        file.write_text(sample_models.DOUBLE)
        mended_s = time.monotonic()
        await until(lambda: "double answers again" in capsys.readouterr().err)
        assert time.monotonic() - mended_s < 25.0

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


@pytest.mark.patient
@pytest.mark.planted
def test_a_model_that_was_added_and_is_never_loaded_keeps_no_other_away_once_the_server_is_started_anew(
    settings,
):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        body = "import time\ntime.sleep(1e6)\n"
        sample_models.write(settings.repository, "endless", sample_models.DOUBLE_CONFIG, body)
        for times in (1, 2):  # at the second it was tried before, and never loaded
            server_of(servers[-1].group).kill()
            await until(lambda times=times: len(servers) == 1 + times)
            assert doubles(triton.InferenceServerClient(servers[-1].endpoints.grpc))
            assert list(lacks[-1]) == ["endless"] and "its files have changed" in lacks[-1]["endless"]
            await until(lambda: "endless" in {worker.model for worker in workers_of(servers[-1].group)})

    supervised(settings, scenario, start_timeout_s=10.0)


WAITS = {
    "initialize": "def initialize(self, args):\n        wait()\n",
    "execute": "def execute(self, requests):\n        wait()\n        return [self.answer(one) for one in requests]\n",
}
BATCHES = sample_models.DOUBLE_CONFIG.replace("size: 0", "size: 4").replace("-1", "3")
PREDICT = 'parameters { key: "task" value { string_value: "predict" } }\n'


@pytest.mark.patient
@pytest.mark.planted
@pytest.mark.parametrize("begun", WAITS)
def test_one_that_does_not_end_what_it_begins_keeps_no_other_away_once_the_server_is_started_anew(
    settings, capsys, tmp_path, monkeypatch, begun
):
    """Neither its load, for which Triton waits at its start, nor the answer to its example."""
    monkeypatch.setattr(server_watch, "BEGUN_S", 3.0)
    wait = f"\ndef wait():\n    while os.path.exists({str(tmp_path / 'flag')!r}):\n        time.sleep(0.1)\n"
    code = f"import os, time\n{wait}{sample_models.DOUBLE}\n    {WAITS[begun]}"
    sample_models.write(settings.repository, "odd", BATCHES + PREDICT, code)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert not lacks[0]
        (tmp_path / "flag").touch()
        server_of(servers[0].group).kill()
        await until(lambda: len(servers) > 1)
        assert list(lacks[1]) == ["odd"] and doubles(triton.InferenceServerClient(servers[1].endpoints.grpc))
        for worker in workers_of(servers[1].group):
            if worker.model == "double":
                worker.kill()
        await until(lambda: "double is loaded anew: its worker" in said())
        await until(lambda: said().rpartition("double is loaded anew")[2].count("double answers again"))
        os.kill(server_of(servers[1].group).pid, signal.SIGSTOP)
        await until(lambda: len(servers) > 2)
        (tmp_path / "flag").unlink()
        await until(lambda: "odd answers, after" in said())

    heard = []

    def said():
        heard.append(capsys.readouterr().err)
        return "".join(heard)

    supervised(settings, scenario, start_timeout_s=4 * PATIENCE_S)
