"""A translator that torch itself runs, in bfloat16, behind a real Triton."""

import asyncio

import pytest

from clients.translate import Translator
from export.stage import export_torch
from models.train.date_data import held_out
from serving.canary import canary_check
from serving.repository.layout import write_repository
from serving.triton_server.ports import free_ports
from serving.triton_server.process import TritonServer
from serving.triton_server.settings import ServerSettings
from tests.conftest import DATES
from tests.end_to_end.asking import ask


@pytest.fixture
def server(tmp_path):
    export_torch(DATES, tmp_path / "artefact", "bf16")
    write_repository([tmp_path / "artefact"], tmp_path / "repository", device="cpu")
    http, grpc, metrics = free_ports(3)
    ports = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    with TritonServer(ServerSettings(repository=tmp_path / "repository", **ports)) as running:
        running.wait_until_ready(canary_check({DATES}, 30.0), 60.0)
        yield running.endpoints


def test_it_answers_requests_that_come_together_and_refuses_a_bad_one_alone(server):
    pairs = held_out(20)

    async def together(client):
        translator = await Translator.find(client)
        texts = [text for text, _ in pairs]
        return await asyncio.gather(*(translator.translate(text) for text in (*texts, "§§§")), return_exceptions=True)

    *answers, refused = ask(server, together)
    assert sum(answer == truth for answer, (_, truth) in zip(answers, pairs, strict=True)) >= 19
    assert "§" in str(refused)
