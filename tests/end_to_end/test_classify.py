import asyncio
import json

import numpy as np
import pytest
import torch
from PIL import Image

from attendant.errors import InputError, ServerError, UnknownNameError, UnreachableError
from clients.classify import Classifier
from clients.triton_client import TritonClient
from models.checkpoints.resolve import checkpoint_named
from models.train.digit_data import held_out
from tests.conftest import DIGITS
from tests.end_to_end.asking import ask, gathered, python_m


@pytest.fixture(scope="module")
def images():
    return held_out()[0]


@pytest.fixture
def png(images, tmp_path):
    path = tmp_path / "digit.png"
    Image.fromarray((images[0, 0] * 255).round().astype(np.uint8)).save(path)
    return path


async def logits(client, pixels):
    return await (await Classifier.find(client)).logits(pixels)


def raw(pixels):
    """A request past the client's own checks."""
    return lambda client: client.infer(DIGITS, {"pixels": pixels})


def test_served_logits_are_the_eager_models(server, images):
    served = ask(server, lambda client: logits(client, images[:32]))
    with torch.no_grad():
        eager = checkpoint_named(DIGITS).model(torch.from_numpy(images[:32])).numpy()
    np.testing.assert_allclose(served, eager, atol=1e-4)
    assert (served.argmax(1) == eager.argmax(1)).all()


def test_requests_that_come_together_are_batched_and_each_gets_its_own_answer(server, images):
    async def together(client):
        classifier = await Classifier.find(client)
        return await asyncio.gather(*(classifier.logits(images[i : i + 1]) for i in range(64)))

    answers = np.concatenate(ask(server, together))
    alone = ask(server, lambda client: logits(client, images[:32]))
    np.testing.assert_allclose(answers[:32], alone, atol=1e-4)
    assert gathered(server, DIGITS, lambda: ask(server, together), 64)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_pixels_that_are_not_finite_are_refused_with_their_number(server, images, bad):
    broken = images[:2].copy()
    broken[1, 0, 3, 3] = bad
    with pytest.raises(InputError, match="1 NaN or infinite"):
        ask(server, raw(broken))


@pytest.mark.parametrize("shape", [(1, 1, 8, 9), (1, 3, 8, 8), (8, 8), (33, 1, 8, 8)])
def test_a_wrong_shape_is_refused_by_the_server_too(server, shape):
    with pytest.raises(InputError):
        ask(server, raw(np.zeros(shape, dtype=np.float32)))


def test_a_wrong_shape_is_refused_by_the_client_with_the_right_one(server):
    with pytest.raises(InputError, match=r"float32 pixels \[batch, 1, 8, 8\].*\[1, 1, 8, 9\]"):
        ask(server, lambda client: logits(client, np.zeros((1, 1, 8, 9), dtype=np.float32)))


def test_a_wrong_type_is_refused_by_both(server):
    with pytest.raises(InputError, match="float64"):
        ask(server, lambda client: logits(client, np.zeros((1, 1, 8, 8))))
    with pytest.raises(InputError, match="FP64"):
        ask(server, raw(np.zeros((1, 1, 8, 8))))


def test_a_model_that_was_exported_without_maps_refuses_to_show_them_and_goes_on(server, images):
    async def mixed(client):
        classifier = await Classifier.find(client)
        calls = classifier.explain(images[:1]), classifier.logits(images[:1])
        return await asyncio.gather(*calls, return_exceptions=True)

    refused, answered = ask(server, mixed)
    assert isinstance(refused, InputError) and "--explain" in str(refused)
    assert answered.shape == (1, 10)


def test_an_unknown_model_is_named(server):
    with pytest.raises(UnknownNameError, match="'digits-cnn'"):
        ask(server, lambda client: Classifier.find(client, "digits-cnn"))


def test_a_server_that_is_not_there_is_said_to_be_so_with_how_to_start_it():
    async def index():
        async with TritonClient("127.0.0.1:9", timeout_s=5) as client:
            await client.models()

    with pytest.raises(UnreachableError, match="attendant serve"):
        asyncio.run(index())


def test_an_answer_that_does_not_come_in_time_is_an_error(server, images):
    with pytest.raises(ServerError, match="within 1e-09 s"):
        ask(server, raw(images[:1]), timeout_s=1e-9)


def test_the_command_prints_a_label_for_each_file(server, png):
    told = python_m("clients", "classify", png, png, "--server", server.grpc, "--top", 3)
    assert told.returncode == 0, told.stderr
    assert len(told.stdout.splitlines()) == 2
    assert told.stdout.splitlines()[0].count("%") == 3


def test_the_command_prints_json_for_scripts(server, png, images):
    told = python_m("clients", "classify", png, "--server", server.grpc, "--json")
    (guess,) = json.loads(told.stdout)["guesses"]
    expected = ask(server, lambda client: logits(client, images[:1])).argmax()
    assert guess["label"] == str(expected)
    assert 0.5 < guess["probability"] <= 1


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["nothing.png"], 2, "an image file at nothing.png"),
        ([], 2, "an image file"),
        (["--model", "digits-cnn", "x.png"], 2, "'digits-cnn'"),
        (["--server", "127.0.0.1:9", "x.png"], 1, "attendant serve"),
    ],
)
def test_a_mistake_is_one_line_and_its_status(server, words, status, says):
    words = words if "--server" in words else [*words, "--server", server.grpc]
    refused = python_m("clients", "classify", *words)
    assert refused.returncode == status, refused.stderr
    assert refused.stderr.count("\n") == 1
    assert says in refused.stderr
