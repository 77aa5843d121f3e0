from dataclasses import replace

import pytest
import torch
from tokenizers import decoders
from tokenizers.models import WordLevel
from transformers import BartForConditionalGeneration, BertModel, GPT2LMHeadModel, VisionEncoderDecoderModel

from attendant.tokenization import load_tokenizer
from attendant.tokenizer import Tokenizer
from models.checkpoints.example import MOST_TOKENS, TEXT, example_for
from models.checkpoints.store import load_checkpoint
from tests.models.checkpoints.importers.captioners import vit_gpt2
from tests.models.checkpoints.importers.saved import characters, imported, rewrite
from tests.models.checkpoints.importers.test_bart import bart
from tests.models.checkpoints.importers.test_bert import bert
from tests.models.checkpoints.importers.test_gpt2 import gpt2


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    folder = gpt2(tmp_path_factory.mktemp("example") / "theirs")
    return imported(folder), GPT2LMHeadModel.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    folder = bart(tmp_path_factory.mktemp("example") / "theirs")
    return imported(folder), BartForConditionalGeneration.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def captioner(tmp_path_factory):
    folder = vit_gpt2(tmp_path_factory.mktemp("example") / "theirs")
    return imported(folder), VisionEncoderDecoderModel.from_pretrained(folder).eval()


def tokenizer_of(checkpoint):
    return load_tokenizer(checkpoint.folder, checkpoint.details["tokenizer"])


def generated(theirs, tokenizer, limit, **rules):
    """What transformers says to the example's text by greedy decoding."""
    ids = torch.tensor([tokenizer.encode(TEXT, 99)])
    made = theirs.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=limit,
        do_sample=False,
        forced_eos_token_id=None,
        **rules,
    )[0].tolist()
    return tokenizer.decode(made[1:] if theirs.config.is_encoder_decoder else made[ids.shape[1] :])


@pytest.mark.parametrize("model", ["language_model", "translator"])
def test_the_answer_is_what_transformers_says_greedily(model, request):
    checkpoint, theirs = request.getfixturevalue(model)
    tokenizer = tokenizer_of(checkpoint)
    example = example_for(checkpoint, tokenizer)
    limit = example["inputs"]["max_tokens"]
    assert example["inputs"]["text"] == TEXT
    assert 1 <= limit <= MOST_TOKENS
    ends = [] if checkpoint.family.task.name == "generate" else [checkpoint.config.end_token]
    ends = checkpoint.details.get("end_tokens", ends)
    assert example["answer"] == generated(theirs, tokenizer, limit, eos_token_id=ends or None, pad_token_id=0)
    assert checkpoint.example == example


@pytest.mark.parametrize(
    ("model", "forced"),
    [
        ("language_model", {}),
        ("language_model", {"forced_start_token": 9}),
        ("translator", {}),
        ("translator", {"forced_start_token": 9}),
    ],
)
def test_the_rules_of_the_checkpoint_are_followed(model, forced, request):
    checkpoint, theirs = request.getfixturevalue(model)
    tokenizer = tokenizer_of(checkpoint)
    plain = example_for(checkpoint, tokenizer)["answer"]
    said = characters().encode(plain).ids[0]
    rules = {**checkpoint.details, "suppressed_tokens": [said], **forced}
    example = example_for(replace(checkpoint, details=rules), tokenizer)
    first = {"forced_bos_token_id": 9} if forced else {}
    limit = example["inputs"]["max_tokens"]
    assert example["answer"] == generated(theirs, tokenizer, limit, suppress_tokens=[said], pad_token_id=0, **first)
    assert plain[0] not in example["answer"]
    assert not forced or example["answer"].startswith(tokenizer.decode([9])) == (model == "translator")


def test_an_end_token_ends_the_answer_before_the_limit(language_model):
    checkpoint, _ = language_model
    tokenizer = tokenizer_of(checkpoint)
    whole = characters().encode(example_for(checkpoint, tokenizer)["answer"]).ids
    begun = next(count for count, token in enumerate(whole) if token != whole[0])
    details = {**checkpoint.details, "end_tokens": [whole[begun]]}
    ended = example_for(replace(checkpoint, details=details), tokenizer)
    answer = tokenizer.decode(whole[:begun])
    assert ended == {"inputs": {"text": TEXT, "max_tokens": MOST_TOKENS}, "answer": answer}


def test_a_model_that_is_sure_of_nothing_has_an_example_without_an_answer(language_model):
    unsure = load_checkpoint(language_model[0].folder)
    unsure.model.embedding.weight.zero_()
    assert example_for(unsure, tokenizer_of(unsure)) == {"inputs": {"text": TEXT, "max_tokens": 1}}


def test_an_answer_does_not_end_within_a_character(language_model):
    checkpoint, _ = language_model
    whole = example_for(checkpoint, tokenizer_of(checkpoint))["answer"]
    half = characters()
    entries = {("Ã" if token == whole[-1] else token): number for token, number in half.get_vocab().items()}
    half.model = WordLevel(entries, unk_token="<unk>")
    half.decoder = decoders.ByteLevel()
    example = example_for(checkpoint, Tokenizer(half, "keep"))
    assert example["answer"] == whole[: example["inputs"]["max_tokens"]]
    assert 0 < example["inputs"]["max_tokens"] < MOST_TOKENS


def test_a_model_too_short_for_the_text_has_no_example(tmp_path):
    checkpoint = imported(gpt2(tmp_path / "theirs"), max_length=8)
    assert checkpoint.example == {}


def test_an_answer_is_no_longer_than_the_room_behind_the_text(tmp_path):
    length = len(Tokenizer(characters()).encode(TEXT, 99))
    folder = gpt2(tmp_path / "theirs")
    rewrite(folder / "generation_config.json", eos_token_id=[])
    checkpoint = imported(folder, max_length=length + 2)
    assert checkpoint.example["inputs"]["max_tokens"] <= 2


def test_an_encoder_tells_the_first_values_that_it_pools(tmp_path):
    folder = bert(tmp_path / "theirs")
    checkpoint = imported(folder)
    ids = torch.tensor([tokenizer_of(checkpoint).encode(TEXT, 99)])
    with torch.no_grad():
        pooled = BertModel.from_pretrained(folder).eval()(input_ids=ids).pooler_output[0, :8]
    assert checkpoint.example["inputs"] == {"text": TEXT}
    assert checkpoint.example["answer"] == pytest.approx(pooled.tolist(), abs=1e-5)
    assert pooled.abs().max() > 0.01


def test_a_captioner_tells_what_transformers_says_to_pixels_of_zero(captioner):
    checkpoint, theirs = captioner
    tokenizer = tokenizer_of(checkpoint)
    example = example_for(checkpoint, tokenizer)
    limit = example["inputs"]["max_tokens"]
    assert example["inputs"] == {"max_tokens": limit}
    pixels = torch.zeros(1, *checkpoint.config.pixel_shape)
    (made,) = theirs.generate(pixels, max_new_tokens=limit, do_sample=False).tolist()
    assert example["answer"] == tokenizer.decode(made[1:])
    (other,) = theirs.generate(pixels + 3, max_new_tokens=limit, do_sample=False).tolist()
    assert other != made
    assert checkpoint.example == example


def test_a_captioner_that_is_sure_of_nothing_has_an_example_without_an_answer(captioner):
    unsure = load_checkpoint(captioner[0].folder)
    unsure.model.embedding.weight.zero_()
    assert example_for(unsure, tokenizer_of(unsure)) == {"inputs": {"max_tokens": 1}}
