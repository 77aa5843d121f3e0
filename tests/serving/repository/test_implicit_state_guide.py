"""The client of docs/guides/implicit-state.md sends what the graph needs."""

import re
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from models.manifest import Manifest
from serving.repository.implicit_state import implicit_state_configs
from tests.serving.repository.sequence_batcher import SequenceBatcher
from tests.text_checkpoints import CAPACITY, PROMPT, STOPS_AFTER

TYPES = {"INT64": np.int64, "BOOL": np.bool_}


class Server:
    """The sequence batcher behind the interface of Triton's client; there is no server with such a backend here."""

    def __init__(self, batcher):
        self.batcher = batcher

    def infer(self, model, inputs, sequence_id, sequence_start):
        assert model == "stdlib-lm-decoder"
        if sequence_start:
            self.batcher.start(sequence_id)
        sent = {
            tensor.name(): np.frombuffer(tensor._raw_content, TYPES[tensor.datatype()]).reshape(tensor.shape())
            for tensor in inputs
        }
        self.answer = self.batcher.step({sequence_id: sent})[sequence_id]
        return self

    def as_numpy(self, name):
        return self.answer[name][None]


@pytest.fixture(scope="module")
def ask():
    (code,) = re.findall(r"```python\n(.*?)```", Path("docs/guides/implicit-state.md").read_text(), re.DOTALL)
    named = {}
    exec(code, named)  # noqa: S102  (a page of our own)
    return named["ask"]


def test_the_client_of_the_guide_gets_the_right_answer(ask, language_model):
    manifest = Manifest.read(language_model)
    config = implicit_state_configs(manifest, "onnxruntime")["decoder"]
    server = Server(SequenceBatcher(config, language_model / "decoder.onnx"))
    tokenizer = Tokenizer.from_file(str(language_model / "tokenizer.json"))
    tokens, new, position = [], tokenizer.encode(PROMPT).ids, 0
    for _ in range(STOPS_AFTER):
        tokens.append(ask(server, 7, new, position, CAPACITY))
        position += len(new)
        new = tokens[-1:]
    assert tokenizer.decode(tokens) == manifest.example["answer"]
