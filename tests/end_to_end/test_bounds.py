"""Sizes that a graph was made for, and sizes beyond, before a real Triton: answered, or refused by name and bound."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from attendant.errors import InputError
from attendant.tokenizer import TOKENIZER_NAME, Tokenizer
from clients.caption import Captioner
from clients.predict import Predictor
from clients.triton_client import TritonClient
from export.artefact.stage import export_onnx
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint, save_checkpoint
from models.generate import caption_greedily
from models.presets import PRESETS
from models.registry import FAMILIES
from models.train.caption_data import caption_tokenizer
from tests.end_to_end.test_imported import served
from tests.models.checkpoints.custom_models import own_file

NAMES = ["pooled", "captioner"]
STRIDE, SIDE = 2, 12


def write_captioner(folder):
    """Show, Attend and Tell of 12 × 12 pixels with random weights, and words to say."""
    tokenizer = caption_tokenizer()
    config = replace(PRESETS["show-attend-tell-tiny"].config, vocabulary_size=tokenizer.get_vocab_size())
    checkpoint = Checkpoint(name="captioner", family=FAMILIES["rnn_captioner"], model=randomised(config))
    save_checkpoint(checkpoint, folder)
    tokenizer.save(str(folder / TOKENIZER_NAME))
    return folder


def randomised(config):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return FAMILIES["rnn_captioner"].build(config).eval()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("bounds")


@pytest.fixture(scope="module")
def server(place):
    sources = dict(zip(NAMES, (own_file(place), write_captioner(place / "checkpoint")), strict=True))
    for name, source in sources.items():
        export_onnx(str(source), place / "artefacts" / name)
    with served(place, NAMES) as grpc:
        yield grpc


def caption(server, pixels):
    async def ask():
        async with TritonClient(server) as client:
            captioner = await Captioner.find(client)
            return "".join([piece.text async for piece in captioner.stream(pixels)])

    return asyncio.run(ask())


def image(height, width):
    return np.random.default_rng([height, width]).standard_normal((3, height, width), dtype=np.float32)


def mixed(server, rows, length):
    async def ask():
        async with TritonClient(server) as client:
            predictor = await Predictor.find(client)
            return await predictor.predict(
                {"readings": np.ones((rows, length, 8)), "valid": np.ones((rows, length), dtype=bool)}
            )

    return asyncio.run(ask())["mixed"]


@pytest.mark.slow
def test_a_request_of_the_largest_sizes_is_answered(server):
    assert mixed(server, 32, 12).shape == (32, 8)


def test_a_request_that_is_too_long_is_the_clients_mistake_by_name_and_bound(server):
    with pytest.raises(InputError, match=r"at most 12 along axis 'time' of 'readings'; found 13; .*split the request"):
        mixed(server, 1, 13)


def test_a_request_to_be_explained_is_refused_where_nothing_is(server):
    async def asked():
        inputs = {"readings": np.ones((1, 2, 8), np.float32), "valid": np.ones((1, 2), dtype=bool)}
        async with TritonClient(server) as client:
            await client.infer(NAMES[0], inputs, None, {"explain": True})

    with pytest.raises(InputError, match="leave the parameter explain out"):
        asyncio.run(asked())


@pytest.mark.parametrize("sides", [(SIDE, SIDE), (SIDE, 5), (STRIDE, STRIDE)], ids=str)
def test_images_of_several_sizes_are_described_as_the_eager_model_describes_them(server, place, sides):
    pixels = image(*sides)
    model = checkpoint_named(str(place / "checkpoint")).model
    (tokens,) = caption_greedily(model, torch.from_numpy(pixels)[None], max_tokens=7)
    assert caption(server, pixels) == Tokenizer.load(place / "checkpoint" / TOKENIZER_NAME).decode(tokens)


@pytest.mark.parametrize(
    ("sides", "says"),
    [
        ((SIDE + 1, SIDE), "at most 12 along axis 'height' of 'pixels'; found 13;"),
        ((SIDE, STRIDE - 1), "at least 2 along axis 'width' of 'pixels'; found 1;"),
    ],
)
def test_an_image_that_is_too_large_or_too_small_is_the_clients_mistake(server, sides, says):
    with pytest.raises(InputError, match=says):
        caption(server, image(*sides))


def test_a_request_of_too_many_rows_is_refused_by_the_client_and_by_the_batcher(server):
    async def asked():
        inputs = {"readings": np.ones((33, 2, 8), np.float32), "valid": np.ones((33, 2), dtype=bool)}
        async with TritonClient(server) as client:
            await client.infer(NAMES[0], inputs)

    with pytest.raises(InputError, match=r"batch <= 32, any, 8\] for 'readings'; found \[33, 12, 8\]"):
        mixed(server, 33, 12)
    with pytest.raises(InputError, match="<= 32"):
        asyncio.run(asked())
