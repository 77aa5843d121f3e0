"""What a served model shows is what models/explain finds offline; and nothing is loaded or run for it unasked."""

import asyncio
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

from attendant.errors import InputError, ServerError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from attendant.tokenization import load_tokenizer
from clients.answer import whole_answers
from clients.classify import Classifier
from clients.translate import Translator
from models.checkpoints.resolve import checkpoint_named
from models.explain.alignments import alignments
from models.explain.images import attention_maps, class_rollout
from models.explain.windows import received_attention
from models.train.digit_data import held_out
from serving.triton.repository.layout import write_repository
from tests.end_to_end.asking import ask, post, python_m
from tests.end_to_end.servers import started

VIT, SWIN, TRANSFORMER, GRU = "digits-vit", "digits-swin", "dates-transformer", "dates-gru"
EXPLAINED = (VIT, SWIN, TRANSFORMER)
TEXT = "3rd of march 1997"


@pytest.fixture(scope="module")
def explaining(explained_digits, explained_dates, explained_swin, explained_gru, tmp_path_factory):
    """A repository in which every model can be explained; the recurrent one needs no further graph for it."""
    out = tmp_path_factory.mktemp("explaining") / "model_repository"
    write_repository([explained_digits, explained_dates, explained_swin, explained_gru], out)
    return out


@pytest.fixture(scope="module")
def server(explaining):
    with started(explaining) as running:
        yield running.endpoints
        assert running.poll() is None, running.log.read_text()[-3000:]


@pytest.fixture(scope="module")
def images():
    return held_out()[0][:5]


def logits(server, name, images):
    async def asked(client):
        return await (await Classifier.find(client, name)).logits(images)

    return ask(server, asked)


def explained(server, name, images):
    async def asked(client):
        return await (await Classifier.find(client, name)).explain(images)

    return ask(server, asked)


def pieces(server, name, text=TEXT, explain=False):
    async def asked(client):
        translator = await Translator.find(client, name)
        return [piece async for piece in translator.stream(text, SamplingParams(explain=explain))]

    return ask(server, asked)


def offline_alignments(name, text, token_ids):
    checkpoint = checkpoint_named(name)
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer"))
    source = torch.tensor([tokenizer.encode(text, checkpoint.config.max_source_length)])
    target = torch.tensor([[checkpoint.config.start_token, *token_ids[:-1]]])
    return alignments(checkpoint.model, source, torch.ones_like(source, dtype=torch.bool), target)[0]


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_graph_that_nobody_asks_for_is_not_loaded_and_one_that_was_loaded_is_kept(server, explaining, images, name):
    folder, away = explaining / name / "1", explaining / f"{name}.away"
    graph = folder / Manifest.read(folder).file_for("explained", "ort-cpu")
    plain, shown = (logits, explained) if name != TRANSFORMER else (pieces, lambda *a: pieces(*a, explain=True))
    question = (images,) if name != TRANSFORMER else ()
    graph.rename(away)
    try:
        plain(server, name, *question)
        with pytest.raises(ServerError, match=re.escape(graph.name)) as caught:
            shown(server, name, *question)
        assert str(folder) not in str(caught.value)
        plain(server, name, *question)
    finally:
        away.rename(graph)
    shown(server, name, *question)
    graph.rename(away)
    try:
        shown(server, name, *question)
    finally:
        away.rename(graph)


def test_served_attention_and_rollout_are_the_eager_models(server, images):
    model, pixels = checkpoint_named(VIT).model, torch.from_numpy(images)
    served = explained(server, VIT, images)
    assert served.keys() == {"logits", "attention", "rollout"}
    np.testing.assert_allclose(served["logits"], logits(server, VIT, images), atol=1e-5)
    np.testing.assert_allclose(served["attention"], torch.stack(attention_maps(model, pixels), 1), atol=1e-6)
    np.testing.assert_allclose(served["rollout"], class_rollout(model, pixels), atol=1e-6)
    assert np.ptp(served["rollout"], axis=(1, 2)).min() > 0.01, "a map that is even everywhere would prove nothing"


def test_served_windows_receive_what_those_of_the_eager_model_do(server, images):
    offline = received_attention(checkpoint_named(SWIN).model, torch.from_numpy(images))
    served = explained(server, SWIN, images)
    assert list(served) == ["logits", *(f"received_{layer}" for layer in range(1, len(offline) + 1))]
    np.testing.assert_allclose(served["logits"], logits(server, SWIN, images), atol=1e-5)
    for layer, map_Bhw in enumerate(offline.values(), start=1):
        np.testing.assert_allclose(served[f"received_{layer}"], map_Bhw, atol=1e-6)


@pytest.mark.parametrize("name", [TRANSFORMER, GRU])
def test_each_piece_carries_the_alignment_of_its_token_as_found_offline(server, name):
    received = pieces(server, name, explain=True)
    assert [len(piece.alignment) for piece in received] == [len(piece.token_ids) for piece in received]
    token_ids = [token for piece in received for token in piece.token_ids]
    offline_TS = offline_alignments(name, TEXT, token_ids)[-1].mean(0)
    np.testing.assert_allclose(np.concatenate([piece.alignment for piece in received]), offline_TS, atol=1e-5)


@pytest.mark.parametrize("name", [TRANSFORMER, GRU])
def test_the_answer_is_the_same_and_has_no_alignment_unless_it_is_asked_for(server, name):
    plain, shown = pieces(server, name), pieces(server, name, explain=True)
    assert [piece.alignment for piece in plain] == [None] * len(plain)
    (without,), (within,) = whole_answers(plain), whole_answers(shown)
    assert (without.text, without.token_ids) == (within.text, within.token_ids)


@pytest.mark.parametrize("name", [TRANSFORMER, GRU])
def test_both_sides_of_an_alignment_are_told_in_words(server, name):
    (answer,) = whole_answers(pieces(server, name, explain=True))
    assert answer.alignment.shape == (len(answer.token_texts), len(answer.source_texts))
    assert ("".join(answer.source_texts), "".join(answer.token_texts)) == (TEXT, answer.text)
    (plain,) = whole_answers(pieces(server, name))
    assert (plain.source_texts, plain.token_texts) == ((), ())


def test_plain_requests_and_others_at_the_same_time_each_get_their_own_answer(server, images):
    async def together(client):
        classifier = await Classifier.find(client, VIT)
        calls = [call(images[row : row + 1]) for row in range(5) for call in (classifier.logits, classifier.explain)]
        return await asyncio.gather(*calls)

    answers, alone = ask(server, together), explained(server, VIT, images)
    for row in range(5):
        np.testing.assert_allclose(answers[2 * row], alone["logits"][row : row + 1], atol=1e-5)
        np.testing.assert_allclose(answers[2 * row + 1]["rollout"], alone["rollout"][row : row + 1], atol=1e-6)


def test_tritons_generate_endpoint_takes_the_parameter_too(server):
    body = {"text_input": TEXT, "explain": True}
    whole = json.loads(post(server, f"{TRANSFORMER}/generate", body))
    rows = np.array(whole["alignment"]).reshape(len(whole["output_ids"]), -1)
    np.testing.assert_allclose(rows, offline_alignments(TRANSFORMER, TEXT, whole["output_ids"])[-1].mean(0), atol=1e-5)
    assert "alignment" not in json.loads(post(server, f"{TRANSFORMER}/generate", {"text_input": TEXT}))


def test_only_the_maps_that_a_request_names_are_sent(server, images):
    wanted = ask(server, lambda client: client.infer(VIT, {"pixels": images}, ["rollout"], {"explain": True}))
    assert list(wanted) == ["rollout"]


@pytest.mark.parametrize("value", ["yes", 1])
def test_a_parameter_that_is_no_boolean_is_refused(server, images, value):
    with pytest.raises(InputError, match="true or false for the parameter 'explain'"):
        ask(server, lambda client: client.infer(VIT, {"pixels": images}, None, {"explain": value}))


def test_bad_pixels_are_refused_when_maps_are_wanted_too(server, images):
    broken = images.copy()
    broken[1, 0, 3, 3] = np.nan
    with pytest.raises(InputError, match="1 NaN or infinite"):
        ask(server, lambda client: client.infer(VIT, {"pixels": broken}, None, {"explain": True}))


def test_the_command_saves_the_maps_of_an_image(server, images, tmp_path):
    picture, out = tmp_path / "digit.png", tmp_path / "why.npz"
    bytes_BCHW = (images[:1] * 255).round().astype(np.uint8)
    Image.fromarray(bytes_BCHW[0, 0]).save(picture)
    told = python_m("clients", "explain", picture, "--model", VIT, "--out", out, "--server", server.grpc)
    assert told.returncode == 0, told.stderr
    saved = np.load(out)
    assert told.stdout.splitlines()[0] == str(saved["answer"]) == str(saved["logits"].argmax())
    np.testing.assert_allclose(
        saved["rollout"], explained(server, VIT, np.float32(bytes_BCHW / 255))["rollout"][0], atol=1e-5
    )
    assert f"attention: float32 {list(saved['attention'].shape)}" in told.stdout.splitlines()


def test_the_command_saves_the_alignment_of_a_text(server, tmp_path):
    out = tmp_path / "why.npz"
    told = python_m("clients", "explain", TEXT, "--model", GRU, "--out", out, "--server", server.grpc)
    assert told.returncode == 0, told.stderr
    saved = np.load(out)
    assert str(saved["answer"]) == told.stdout.splitlines()[0] == "1997-03-03"
    assert saved["alignment"].shape == (len(saved["output_ids"]), len(TEXT))
    np.testing.assert_allclose(saved["alignment"].sum(1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["nothing.png", "--model", VIT], 2, "an image file at nothing.png"),
        ([TEXT, "--model", "dates-cnn"], 2, "'dates-cnn'"),
        ([TEXT, "--model", GRU, "--out", "/proc/why.npz"], 2, "a place to write at /proc/why.npz"),
        (["§", "--model", TRANSFORMER], 2, "'§'"),
    ],
)
def test_a_mistake_is_one_line_and_its_status(server, tmp_path, words, status, says):
    words = words if "--out" in words else [*words, "--out", tmp_path / "why.npz"]
    refused = python_m("clients", "explain", *words, "--server", server.grpc)
    assert refused.returncode == status, refused.stderr
    assert refused.stderr.count("\n") == 1
    assert says in refused.stderr
    assert not (tmp_path / "why.npz").exists()
