import asyncio
import json

import numpy as np
import pytest
import torch

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from attendant.tokenization import load_tokenizer
from clients.caption import Captioner
from models.checkpoints.resolve import checkpoint_named
from models.generate import caption_greedily
from models.train.caption_data import held_out_pairs
from tests.conftest import CAPTIONER
from tests.end_to_end.asking import ask, python_m

IMAGES, _ = held_out_pairs(20)
PAIR = "docs/examples/pair.png"


async def pieces_of(client, pixels, max_tokens=None):
    captioner = await Captioner.find(client)
    return [piece async for piece in captioner.stream(pixels, SamplingParams(max_tokens=max_tokens))]


def test_captions_served_are_those_of_the_eager_model_at_the_same_time_and_apart(server):
    checkpoint = checkpoint_named(CAPTIONER)
    tokenizer = load_tokenizer(checkpoint.folder)
    wanted = [tokenizer.decode(tokens) for tokens in caption_greedily(checkpoint.model, torch.from_numpy(IMAGES), 7)]

    async def together(client):
        return await asyncio.gather(*(pieces_of(client, image) for image in IMAGES))

    answers = ask(server, together)
    assert ["".join(piece.text for piece in answer) for answer in answers] == wanted
    assert all(answer[-1].finish_reason == "stop" for answer in answers)


def test_words_come_as_they_are_found_and_a_limit_ends_them(server):
    received = ask(server, lambda client: pieces_of(client, IMAGES[0], 3))
    assert sum(len(piece.token_ids) for piece in received) == 3
    assert received[-1].finish_reason == "length"
    assert len("".join(piece.text for piece in received).split()) == 3


def test_the_command_describes_a_file(server):
    done = python_m("clients", "caption", PAIR, "--server", server.grpc)
    assert (done.returncode, done.stdout) == (0, f"{PAIR}: a three left of an eight\n"), done.stderr
    shown = json.loads(python_m("clients", "caption", PAIR, "--json", "--server", server.grpc).stdout)
    assert len(shown.pop("token_ids")) == 6
    assert shown == {"image": PAIR, "candidate": 0, "answer": "a three left of an eight", "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("pixels", "limit", "says"),
    [
        (np.zeros((1, 8, 8), np.float32), None, "float32 pixels"),
        (np.zeros((1, 16, 16)), None, "float32 pixels"),
        (np.full((1, 16, 16), np.inf, np.float32), None, "finite pixels"),
        (IMAGES[0], 8, "max_tokens from 1 to 7"),
    ],
    ids=["shape", "type", "infinite", "limit"],
)
def test_a_bad_request_is_refused_and_the_next_one_answered(server, pixels, limit, says):
    with pytest.raises(InputError, match=says):
        ask(server, lambda client: pieces_of(client, pixels, limit))
    assert ask(server, lambda client: pieces_of(client, IMAGES[0]))[-1].finish_reason == "stop"


@pytest.mark.parametrize("words", [[], ["missing.png"]], ids=["nothing", "no file"])
def test_a_command_without_an_image_is_one_line_and_status_2(server, words):
    done = python_m("clients", "caption", *words, "--server", server.grpc)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1 or not words
