"""The engine on artefacts that torch runs: the tokens of ONNX Runtime and of the eager model, whatever they share."""

import numpy as np
import pytest
import torch

from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from export.artefact.stage import export_torch
from models.checkpoints.resolve import checkpoint_named
from models.train.caption_data import held_out_pairs
from models.train.date_data import held_out
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import CaptionModel, LanguageModel, TranslationModel
from serving.runtime.torch.buffer import TorchBuffer
from serving.runtime.torch.runner import TorchRunner
from tests.conftest import CAPTIONER, DATES
from tests.serving.engine.test_engine import alone, answers, finish, submitted
from tests.serving.runtime.torch_devices import DEVICES, ReplayedOnCpu
from tests.text_checkpoints import OTHER_PROMPT, PROMPT, STOPS_AFTER

CHUNKS = EngineSettings(max_num_seqs=6, max_queue_size=50, max_prefill_tokens=4, prefix_cache_bytes=0)
KINDS = ["language_model", "dates_artefact", "explained_gru", "captioner_artefact"]
OPTIONS = [
    SamplingParams(),
    SamplingParams(beam_width=3, n=2, max_tokens=7),
    SamplingParams(num_speculative_tokens=3, max_tokens=7),
]


def kind_and_subjects(artefact):
    if artefact == "captioner_artefact":
        return CaptionModel, list(held_out_pairs(5)[0])
    if artefact == "language_model":
        return LanguageModel, [PROMPT, OTHER_PROMPT, "fish", "the cat sat on the mat, and the dog", "a"]
    return TranslationModel, [text for text, _ in held_out(5)]


@pytest.fixture(scope="module")
def pairs(request, tmp_path_factory):
    """From the name of a fixture to its ONNX artefact and to one of the same checkpoint for torch."""
    made = {}

    def pair(artefact):
        if artefact not in made:
            folder = request.getfixturevalue(artefact)
            twin = tmp_path_factory.mktemp("torch") / folder.name
            export_torch(Manifest.read(folder).source, twin)
            made[artefact] = folder, twin
        return made[artefact]

    return pair


def loaded(kind, folder, device="auto", settings=CHUNKS):
    return kind(folder, Manifest.read(folder), device=device, settings=settings)


def recorded(model):
    """The model with the steps of its decoder recorded as on a GPU."""
    if model.runners["decoder"]._recorder is None:
        model.runners["decoder"]._recorder = ReplayedOnCpu()
    return model


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("artefact", KINDS)
def test_a_mix_of_requests_gets_the_tokens_of_onnx_runtime_whatever_it_shares(artefact, device, pairs):
    kind, subjects = kind_and_subjects(artefact)
    with_onnx, with_torch = pairs(artefact)
    onnx, plain, replayed = loaded(kind, with_onnx), loaded(kind, with_torch, device), loaded(kind, with_torch, device)
    assert isinstance(plain.runners["decoder"], TorchRunner)
    asked = [(subject, OPTIONS[number % len(OPTIONS)]) for number, subject in enumerate(subjects)]
    expected = [alone(onnx, *one) for one in asked]
    for model in (plain, recorded(replayed)):
        together = [submitted(model, *one)[0] for one in asked]
        finish(model.engine)
        assert [answers(said) for said in together] == expected
    assert len(replayed.runners["decoder"].recordings) > 1


@torch.no_grad()
def eager_tokens(model, source, start, end, count):
    """The most probable tokens by the full forward pass, without a cache."""
    tokens = list(start)
    while len(tokens) < len(start) + count:
        token = int(model(*source, torch.tensor([tokens]))[0, -1].argmax())
        tokens.append(token)
        if token in end:
            break
    return tuple(tokens[len(start) :])


@pytest.mark.parametrize("artefact", KINDS)
def test_its_tokens_are_the_eager_models(artefact, pairs):
    kind, subjects = kind_and_subjects(artefact)
    folder, twin = pairs(artefact)
    model, eager = loaded(kind, twin), checkpoint_named(Manifest.read(folder).source).model
    for subject in subjects[:3]:
        request = model.request(subject, SamplingParams(max_tokens=STOPS_AFTER + 1))
        source = [torch.from_numpy(array) for array in (request.source or {}).values()]
        rules = model.loaded.rules
        ((_, tokens, _),) = alone(model, subject, SamplingParams(max_tokens=STOPS_AFTER + 1)).values()
        wanted = eager_tokens(eager, source, request.prompt, rules.end, STOPS_AFTER + 1)
        assert tokens in (wanted, wanted[:-1]), "an end token is no answer"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", [DATES, "dates-gru", CAPTIONER])
def test_trained_models_answer_in_half_precision_as_in_float32(name, precision, device, pairs, tmp_path):
    artefact = {DATES: "dates_artefact", "dates-gru": "explained_gru", CAPTIONER: "captioner_artefact"}[name]
    kind, subjects = kind_and_subjects(artefact)
    manifest, _ = export_torch(name, tmp_path / name, precision)
    whole, half = loaded(kind, pairs(artefact)[1], device), recorded(loaded(kind, tmp_path / name, device))
    said = [submitted(half, subject, SamplingParams())[0] for subject in subjects]
    finish(half.engine)
    assert [answers(one) for one in said] == [alone(whole, subject, SamplingParams()) for subject in subjects]
    remembered = {spec.dtype for spec in manifest.graph("decoder").inputs if spec.dtype.endswith("16")}
    assert remembered == {{"fp16": "float16", "bf16": "bfloat16"}[precision]}
    assert 2 * half.engine.cache_bytes < 1.2 * whole.engine.cache_bytes, "source masks are bytes in both"


@pytest.mark.parametrize("device", DEVICES)
def test_a_prompt_seen_before_is_not_computed_again(device, pairs):
    model = loaded(LanguageModel, pairs("language_model")[1], device, EngineSettings(max_num_seqs=2))
    prompt, options = [0, *range(2, 36)], SamplingParams(max_tokens=4, ignore_eos=True)
    first = alone(model, prompt, options)
    assert model.engine.meter.prefix_tokens == 0
    assert alone(model, prompt, options) == first
    assert model.engine.meter.prefix_tokens == 32


def test_no_more_of_a_device_than_was_asked_for_is_copied_to_the_host(pairs, monkeypatch):
    copied = []
    numpy = TorchBuffer.numpy
    monkeypatch.setattr(TorchBuffer, "numpy", lambda buffer: copied.append(buffer.nbytes) or numpy(buffer))
    model = loaded(LanguageModel, pairs("language_model")[1], "cpu", EngineSettings(max_num_seqs=2))
    alone(model, [0, *range(2, 36)], SamplingParams(max_tokens=4, ignore_eos=True))
    row = model.engine.cache_bytes / 2
    blocks, logits = 32 / 40 * row, 5 * 4 * model.vocabulary_size
    assert sum(copied) <= blocks + logits
    assert np.max(copied) < row / 4
