"""A translator that torch itself runs, in bfloat16, behind a real Triton."""

import asyncio

import pytest

from clients.translate import Translator
from export.artefact.stage import export_torch
from models.train.date_data import held_out
from serving.triton.repository.layout import write_repository
from tests.conftest import DATES
from tests.end_to_end.asking import ask
from tests.end_to_end.servers import started


@pytest.fixture
def server(tmp_path):
    export_torch(DATES, tmp_path / "artefact", "bf16")
    write_repository([tmp_path / "artefact"], tmp_path / "repository", device="cpu")
    with started(tmp_path / "repository") as running:
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
