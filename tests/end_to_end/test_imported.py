"""Random checkpoints of every architecture, imported, exported and served, say what transformers' own models say."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from attendant.sampling_params import SamplingParams
from attendant.tokenization import load_tokenizer
from clients.embed import Embedder
from clients.text import TextModel
from clients.triton_client import TritonClient
from export.artefact.stage import export_onnx
from models.checkpoints.importers.importing import import_checkpoint
from serving.triton.repository.layout import write_repository
from tests.end_to_end.imported_models import KINDS
from tests.end_to_end.servers import started

# A decoder, two of an encoder and a decoder, and an encoder; GPT-2, Llama and Marian are asked more in
# tests/serving/engine/test_equals_transformers.py.
ONE_OF_A_KIND = ["llama-3-tied", "bart-untied", "t5", "bert"]
OTHERS = [name for name in KINDS if name not in ONE_OF_A_KIND]
TEXTS = ["the house is small.", "a"]
NEW_TOKENS = 20


def their_tokens(kind, folder, token_ids):
    """What transformers continues or translates greedily, without its start and end tokens."""
    theirs = kind.model.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([token_ids])
    answer = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False, num_beams=1
    )[0].tolist()
    answer = answer[len(token_ids) :] if kind.task == "generate" else answer[1:]
    return answer[: answer.index(1)] if 1 in answer else answer


def their_vector(kind, folder, token_ids):
    theirs = kind.model.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return theirs(torch.tensor([token_ids])).pooler_output[0].numpy()


def imported(place, name, wide):
    """Save and import one of them; both folders."""
    theirs, ours = KINDS[name].save(place / "saved" / name, wide), place / "imported" / name
    import_checkpoint(theirs, ours, max_length=None if KINDS[name].task == "embed" else 48)
    return theirs, ours


@contextmanager
def served(place, names):
    write_repository([place / "artefacts" / name for name in names], place / "repository", threads=1)
    with started(place / "repository") as server:
        yield server.endpoints.grpc


async def answers(server, name):
    async with TritonClient(server, timeout_s=60.0) as client:
        model = await client.model(name)
        if KINDS[name].task == "embed":
            return await Embedder(client, model).embed(TEXTS, "pooled")
        options = SamplingParams(max_tokens=NEW_TOKENS)
        return [list((await TextModel(client, model).answers(text, options))[0].token_ids) for text in TEXTS]


def compare(place, names, wide):
    folders = {name: imported(place, name, wide) for name in names}
    with ThreadPoolExecutor(2) as pool:  # each export waits for a process of its own
        list(pool.map(lambda name: export_onnx(str(folders[name][1]), place / "artefacts" / name), names))
    with served(place, names) as server:
        found = {name: asyncio.run(answers(server, name)) for name in names}
    for name, (theirs, ours) in folders.items():
        tokenizer = load_tokenizer(ours, {"unknown": "keep"})
        sources = [tokenizer.encode(text, 48) for text in TEXTS]
        if KINDS[name].task == "embed":
            wanted = [their_vector(KINDS[name], theirs, source) for source in sources]
            np.testing.assert_allclose(found[name], wanted, rtol=0, atol=1e-5)
        else:
            wanted = [their_tokens(KINDS[name], theirs, source) for source in sources]
            assert found[name] == wanted, name
            assert any(map(len, wanted)), name


# Shorter: tests/end_to_end/test_readme.py serves a folder of GPT-2.
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", [ONE_OF_A_KIND, OTHERS], ids=["one", "others"])
def test_what_every_imported_architecture_says_when_served_is_what_transformers_says(names, tmp_path):
    compare(tmp_path, names, wide=False)


@pytest.mark.full_width
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", KINDS)
def test_so_it_is_at_the_width_of_published_checkpoints(name, tmp_path):
    compare(tmp_path, [name], wide=True)
