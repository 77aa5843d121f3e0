"""A ViT whose graph OpenVINO executes, behind a real Triton."""

import numpy as np
import pytest

from attendant.manifest import Manifest
from attendant.tensor_names import LOGITS, PIXELS
from clients.classify import Classifier
from models.train.digit_data import held_out
from serving.runtime.create_runners import create_runners
from serving.triton.repository.layout import write_repository
from tests.end_to_end.asking import ask
from tests.end_to_end.servers import started

pytest.importorskip("openvino")


@pytest.fixture
def server(digits_artefact, tmp_path):
    write_repository([digits_artefact], tmp_path / "repository", runtime="openvino-bf16")
    with started(tmp_path / "repository") as running:
        yield running.endpoints


async def logits(client, pixels):
    return await (await Classifier.find(client)).logits(pixels)


def test_a_served_vit_answers_with_openvinos_numbers_in_the_precision_that_was_asked_for(server, digits_artefact):
    images = held_out()[0][:32]
    served = ask(server, lambda client: logits(client, images))
    rough, exact = (
        create_runners(digits_artefact, Manifest.read(digits_artefact), runtime=runtime)["model"]
        .run({PIXELS: images})[LOGITS]
        .numpy()
        for runtime in ("openvino-bf16", "onnxruntime")
    )
    np.testing.assert_allclose(served, rough, atol=1e-5)
    assert (served.argmax(1) == exact.argmax(1)).all()
