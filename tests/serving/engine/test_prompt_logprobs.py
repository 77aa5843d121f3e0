"""Log-probabilities of a prompt's own tokens: the model's, however the prompt is divided, and beside whatever."""

import numpy as np
import pytest
import torch

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from export.artefact.stage import export_onnx
from models.checkpoints.importers.importing import import_checkpoint
from serving.engine import executor
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import LanguageModel
from tests.end_to_end.imported_models import KINDS
from tests.models.checkpoints.importers.saved import VOCABULARY
from tests.text_checkpoints import OTHER_PROMPT, PROMPT

CAPACITY, SAMPLES = 60, 200


def options(max_tokens=0, top=0, **others):
    return SamplingParams(echo=True, logprobs=True, max_tokens=max_tokens, top_logprobs=top, **others)


def scored(model, prompt, **asked):
    outputs = list(model.stream(model.request(prompt, options(**asked))))
    assert outputs[-1].finish_reason and outputs[-1].is_last
    return outputs


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    place = tmp_path_factory.mktemp("llama")
    folder = KINDS["llama"].save(place / "llama")
    import_checkpoint(folder, place / "imported", max_length=CAPACITY)
    manifest, _ = export_onnx(str(place / "imported"), place / "artefact")
    settings = EngineSettings(max_num_seqs=4, max_prefill_tokens=10)
    return KINDS["llama"].model.from_pretrained(folder).eval(), LanguageModel(
        place / "artefact", manifest, settings=settings
    )


@torch.no_grad()
def test_they_are_those_of_transformers(pair):
    theirs, ours = pair
    random, greedy = np.random.default_rng(0), 0
    for _ in range(SAMPLES):
        prompt = random.integers(2, VOCABULARY, random.integers(1, CAPACITY)).tolist()
        (output,) = scored(ours, prompt, top=1)
        logprobs = theirs(torch.tensor([prompt])).logits[0].log_softmax(-1)
        expected = logprobs[:-1].gather(1, torch.tensor(prompt[1:], dtype=torch.int64)[:, None])[:, 0]
        assert output.token_ids == tuple(prompt) and output.prompt_tokens == len(prompt)
        assert output.logprobs[0] is None and output.finish_reason == "length"
        np.testing.assert_allclose(output.logprobs[1:], expected, rtol=0, atol=2e-5)
        tops = [top[0][0] for top in output.top_logprobs[1:]]
        greedy += sum(token == best for token, best in zip(tops, logprobs[:-1].argmax(-1).tolist(), strict=True))
        assert tops == logprobs[:-1].argmax(-1).tolist()
    assert greedy > SAMPLES


@pytest.fixture(scope="module")
def generator(language_model):
    return LanguageModel(language_model, Manifest.read(language_model))


def test_they_do_not_depend_on_how_much_is_scored_at_once(generator, monkeypatch):
    whole = scored(generator, OTHER_PROMPT, top=2)
    monkeypatch.setattr(executor, "SCORED_VALUES", 3 * generator.vocabulary_size)
    fresh = LanguageModel.__new__(LanguageModel)
    fresh.__dict__.update(generator.__dict__)
    (few,) = scored(fresh, OTHER_PROMPT, top=2)
    np.testing.assert_allclose(few.logprobs[1:], whole[0].logprobs[1:], rtol=0, atol=1e-5)


def test_the_answer_follows_and_is_the_same(generator):
    plain = list(generator.stream(generator.request(PROMPT, SamplingParams(max_tokens=3, logprobs=True))))
    first, *rest = scored(generator, PROMPT, max_tokens=3)
    assert first.text == PROMPT and first.prompt_tokens == len(first.token_ids)
    assert [one.token_ids for one in rest] == [one.token_ids for one in plain]
    np.testing.assert_allclose([one.logprobs for one in rest], [one.logprobs for one in plain], rtol=0, atol=1e-5)
    assert b"".join(first.token_bytes) == b"<s>" + PROMPT.encode()


def test_an_end_token_is_scored_behind_them(generator):
    plain = list(generator.stream(generator.request(PROMPT, SamplingParams(logprobs=True))))
    assert plain[-1].finish_reason == "stop"
    said = [output.token_ids for output in scored(generator, PROMPT, max_tokens=None)[1:]]
    (end,) = generator.details["end_tokens"]
    assert said == [*(output.token_ids for output in plain[:-1]), (end,)]


def test_a_prefix_that_is_known_is_scored_all_the_same(generator):
    again = [scored(generator, "the cat sat on the mat, and the dog ate the fish")[0].logprobs for _ in range(2)]
    assert again[0] == again[1] and None not in again[1][1:]


def test_others_are_answered_beside_it(generator):
    alone = [one.token_ids for one in generator.stream(generator.request(PROMPT, SamplingParams(max_tokens=4)))]
    running = generator.stream(generator.request(PROMPT, SamplingParams(max_tokens=4)))
    said = [next(running).token_ids]
    scored(generator, OTHER_PROMPT, max_tokens=2)
    assert [*said, *(one.token_ids for one in running)] == alone


def test_each_of_several_answers_begins_with_them(generator):
    outputs = scored(generator, PROMPT, max_tokens=1, n=2, temperature=1.0, seed=1)
    assert [output.candidate for output in outputs if output.prompt_tokens] == [0, 1]


def test_without_them_a_prompt_is_echoed_with_its_tokens(generator):
    (output,) = generator.stream(generator.request(PROMPT, SamplingParams(echo=True, max_tokens=0)))
    assert (output.text, output.finish_reason, output.is_last) == (PROMPT, "length", True)
    assert output.prompt_tokens == len(output.token_ids) and b"".join(output.token_bytes) == b"<s>" + PROMPT.encode()


def test_it_is_echoed_without_a_run(generator):
    steps = []
    request = generator.request(PROMPT, SamplingParams(echo=True, max_tokens=0, n=2, temperature=1.0))
    generator.engine.submit(request, steps.append)
    assert [one.candidate for one in steps] == [0, 1] and generator.engine.is_idle


def test_no_beam_is_followed_for_no_token():
    with pytest.raises(InputError, match="beams with max_tokens of at least 1"):
        SamplingParams(beam_width=2, max_tokens=0)


def test_tokens_of_a_prompt_of_ids_stand_where_what_they_say_does(generator):
    halves = [token for token in generator.tokens("日 the cat") if token]
    halves.remove(generator.tokens("日")[2])  # of the character's three bytes, the second
    (output,) = scored(generator, halves)
    assert output.text.endswith(" the cat") and len(output.text_offsets) == len(halves)
    assert output.text[output.text_offsets[-1] :] == generator.tokenizer.decode(halves[-1:])


def test_a_texts_tokens_stand_where_the_tokenizer_found_them(generator):
    prompt = f"<s>{PROMPT}"  # whose own start token would seem to be what the text begins with
    (output,) = scored(generator, prompt)
    assert output.text_offsets == tuple(generator.tokenizer.offsets(prompt)) and output.text_offsets[:3] == (0, 0, 1)
    (output,) = scored(generator, prompt, parse_special=True)
    assert output.text_offsets[:3] == (0, 0, 3)
