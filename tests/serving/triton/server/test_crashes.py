"""A supervised server that crashes: with which model, and what becomes of the others."""

import asyncio
import os
import signal

import pytest
import tritonclient.grpc as triton

from serving.triton.server.model_watch import ModelWatch
from serving.triton.server.server_watch import SUSPECT_S
from serving.triton.server.workers import server_of
from tests.serving.triton.server import sample_models
from tests.serving.triton.server.test_supervisor import doubles, supervised, until

CRASHING = """
import os
import signal
import time


class TritonPythonModel:
    def initialize(self, args):
        time.sleep(1.0)
        os.kill(os.getppid(), signal.{})
        time.sleep(600)

    def execute(self, requests):
        return []
"""


@pytest.mark.planted
def test_models_with_which_the_first_server_crashes_keep_no_other_from_being_served(settings, capsys):
    for name, end in (("a-crash", "SIGSEGV"), ("z-crash", "SIGKILL")):  # as of the kernel, for memory
        sample_models.write(settings.repository, name, sample_models.DOUBLE_CONFIG, CRASHING.format(end))

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert lacks[0] == dict.fromkeys(
            ("a-crash", "z-crash"), "the server crashed, or grew too large, as it was loaded"
        )
        assert doubles(triton.InferenceServerClient(servers[0].endpoints.grpc))

    supervised(settings, scenario)
    assert "starting the server anew: the server crashed while it loaded" in capsys.readouterr().err


@pytest.mark.planted
def test_a_crash_while_nothing_is_loaded_is_laid_at_no_models_door(settings, capsys):
    async def scenario(servers, lacks):
        for number in range(1, 3):
            await until(lambda count=number: len(servers) == count)
            assert lacks[-1] == {}
            await asyncio.sleep(SUSPECT_S + 1.0)
            os.kill(server_of(servers[-1].group).pid, signal.SIGSEGV)
        await until(lambda: len(servers) > number)
        assert lacks[-1] == {} and doubles(triton.InferenceServerClient(servers[-1].endpoints.grpc))

    supervised(settings, scenario)
    assert "is not loaded for" not in capsys.readouterr().err


@pytest.mark.patient
def test_a_server_that_dies_of_the_end_of_a_late_model_is_started_without_it(settings, capsys, monkeypatch):
    real = ModelWatch._kill_workers

    def kill(watch):
        if watch._find_workers():
            os.kill(server_of(watch._group).pid, signal.SIGSEGV)  # as tritonserver 2.51 does where it was warming up
        real(watch)

    monkeypatch.setattr(ModelWatch, "_kill_workers", kill)
    sample_models.write(settings.repository, "slow", sample_models.DOUBLE_CONFIG, sample_models.SLOW)

    async def scenario(servers, lacks):
        await until(lambda: servers)
        assert list(lacks[0]) == ["slow"]
        assert doubles(triton.InferenceServerClient(servers[0].endpoints.grpc))

    supervised(settings, scenario, start_timeout_s=10.0)
    assert "starting the server anew: the server crashed while it loaded slow" in capsys.readouterr().err


@pytest.mark.patient
@pytest.mark.planted
def test_good_models_that_are_loaded_beside_one_with_which_the_server_crashes_are_served_soon(settings, capsys):
    goods = ("a-good", "z-good")

    async def scenario(servers, lacks):
        await until(lambda: servers)
        sample_models.write(settings.repository, "m-crash", sample_models.DOUBLE_CONFIG, CRASHING.format("SIGSEGV"))
        for name in goods:
            sample_models.write(settings.repository, name, sample_models.DOUBLE_CONFIG, sample_models.DOUBLE)
        server_of(servers[-1].group).kill()

        def all_are_served():
            client = triton.InferenceServerClient(servers[-1].endpoints.grpc)
            try:
                return all(client.is_model_ready(name, client_timeout=5.0) for name in goods)
            except triton.InferenceServerException:
                return False

        await until(lambda: len(servers) > 2)  # one crash at least
        await until(all_are_served)

    supervised(settings, scenario)
    told = capsys.readouterr().err
    assert "m-crash is not loaded for" in told
    assert not any(f"{name} is not loaded for 20 s" in told for name in goods), "once, with the one, and no more"
