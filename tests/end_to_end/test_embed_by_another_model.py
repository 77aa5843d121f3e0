"""A text encoder whose graph is a model of its own, as engines are on Triton's TensorRT backend, behind a real Triton.

The server at hand has no such backend: the graph's model is served by ONNX Runtime, under the same name and tensors.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from attendant.manifest import Manifest
from attendant.parameters import GRAPH_MODEL
from clients.embed import Embedder
from serving.triton.repository.layout import write_repository
from serving.triton.repository.pbtxt import config_from_pbtxt, pbtxt_from_config
from serving.triton.repository.tensorrt_config import tokens_model
from tests.conftest import TEXT_ENCODER
from tests.end_to_end.asking import ask
from tests.end_to_end.servers import started

TEXTS = ["attention is all you need", "fish"]


@pytest.fixture(scope="module")
def server_of_two(text_encoder, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("two")
    manifest = Manifest.read(text_encoder)
    graph = replace(manifest, name=tokens_model(manifest), task="predict", details={}, example={})
    shutil.copytree(text_encoder, tmp_path / "graph")
    graph.write(tmp_path / "graph")
    write_repository([text_encoder], tmp_path / "repository")
    write_repository([tmp_path / "graph"], tmp_path / "repository")
    path = tmp_path / "repository" / TEXT_ENCODER / "config.pbtxt"
    config = config_from_pbtxt(path.read_text())
    config.parameters[GRAPH_MODEL].string_value = graph.name
    path.write_text(pbtxt_from_config(config))
    with started(tmp_path / "repository") as running:
        yield running.endpoints


@pytest.mark.parametrize("pooling", ["pooled", "mean"])
def test_texts_get_the_vectors_that_one_process_makes(server_of_two, server, pooling):
    async def vectors(client):
        return await (await Embedder.find(client)).embed(TEXTS, pooling)

    np.testing.assert_allclose(ask(server_of_two, vectors), ask(server, vectors), atol=1e-5)
