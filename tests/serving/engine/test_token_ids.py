"""A language model without a tokenizer, and special tokens that are read in texts: what an engine makes of both."""

import shutil
from dataclasses import replace

import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from attendant.tokenizer import RenderedText, Tokenizer
from serving.engine.text_generation_model import CaptionModel, LanguageModel
from tests.text_checkpoints import PROMPT


@pytest.fixture(scope="module")
def generator(language_model):
    return LanguageModel(language_model, Manifest.read(language_model))


@pytest.fixture(scope="module")
def without_tokenizer(language_model, tmp_path_factory):
    folder = shutil.copytree(language_model, tmp_path_factory.mktemp("numbers") / "artefact")
    (folder / "tokenizer.json").unlink()
    manifest = Manifest.read(folder)
    files = {name: value for name, value in manifest.files.items() if name != "tokenizer.json"}
    return LanguageModel(folder, replace(manifest, files=files))


def outputs_of(model, prompt, **params):
    return list(model.stream(model.request(prompt, SamplingParams(**params))))


def test_token_ids_are_continued_as_with_a_tokenizer_and_say_no_text(generator, without_tokenizer, language_model):
    prompt = Tokenizer.load(language_model / "tokenizer.json").encode(PROMPT, 40)
    params = {"max_tokens": 5, "logprobs": True, "top_logprobs": 2, "echo": True}
    for with_text, without in zip(
        outputs_of(generator, prompt, **params), outputs_of(without_tokenizer, prompt, **params), strict=True
    ):
        assert without.token_ids == with_text.token_ids and without.text == ""
        assert without.logprobs == pytest.approx(with_text.logprobs, nan_ok=True)
        assert with_text.token_bytes and not without.token_bytes and not without.top_bytes


@pytest.mark.parametrize(
    ("prompt", "params", "found"),
    [
        ("a text", {}, "a text"),
        ("x" * 1000, {}, "a text"),
        ([1, 2], {"stop": ("a",)}, "stop texts"),
        ([1, 2], {"json_object": True}, "a guide"),
    ],
)
def test_what_needs_a_tokenizer_is_refused_in_words(without_tokenizer, prompt, params, found):
    with pytest.raises(InputError, match=f"token ids, as this model has no tokenizer; found {found}; send"):
        without_tokenizer.request(prompt, SamplingParams(**params))


@pytest.mark.planted
def test_special_tokens_in_a_prompt_are_text_unless_the_request_says_otherwise(generator):
    special = SamplingParams(parse_special=True)
    end = generator.tokenizer.library.token_to_id("</s>")
    assert end not in generator.request("the cat</s> sat").prompt
    parsed = generator.request("the cat</s> sat", special).prompt
    assert parsed.count(end) == 1 and parsed[0] == generator.request("the").prompt[0]
    rendered = RenderedText("the cat</s> sat")  # of a chat template, which puts the first token there itself
    assert generator.request(rendered, special).prompt == generator.request(rendered).prompt == parsed[1:]


def test_a_prompt_is_no_longer_than_longrope_has_one_set_of_angles_for(language_model):
    manifest = Manifest.read(language_model)
    long = LanguageModel(language_model, replace(manifest, details=manifest.details | {"max_prompt_length": 3}))
    assert long.request([1, 2, 3]).max_tokens > 3  # an answer goes on beyond it
    with pytest.raises(InputError, match=r"a prompt of at most 3 tokens, as longrope has other angles.*; found 4"):
        long.request([1, 2, 3, 4])


def test_a_captioner_has_no_text_in_which_they_could_be_read(captioner_artefact):
    captioner = CaptionModel(captioner_artefact, Manifest.read(captioner_artefact))
    with pytest.raises(InputError, match="an image without a text; found parse_special"):
        captioner.request(None, SamplingParams(parse_special=True))
