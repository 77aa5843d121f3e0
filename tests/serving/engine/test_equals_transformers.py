"""The engine over exported graphs answers as transformers' ``generate`` does, whatever is asked and beside whatever."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import VisionEncoderDecoderModel

from attendant.sampling_params import EARLY_STOPPING, SamplingParams
from export.artefact.stage import export_onnx
from models.checkpoints.importers.importing import import_checkpoint
from serving.engine.sampling.token_rules import TokenRules
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import CaptionModel, LanguageModel, TranslationModel
from tests.end_to_end.imported_models import KINDS
from tests.models.checkpoints.importers.captioners import SIDE, vit_gpt2
from tests.models.checkpoints.importers.saved import VOCABULARY, rewrite
from tests.serving.engine.transformers_answers import their_answers

END, FORCED = 1, 7
CAPACITY, LONGEST_PROMPT = 60, 36  # more than a block of the prefix cache
SLOTS, TOGETHER = 6, 5  # fewer slots than the requests have sequences, so that some wait for others
EXAMPLES = 20  # of so many requests together, for each kind of model
SCORES = {"rel": 1e-4, "abs": 1e-4}
TEXT = np.random.default_rng(0).integers(2, VOCABULARY, LONGEST_PROMPT).tolist()  # begins most prompts
IMAGES = np.random.default_rng(0).standard_normal((4, 3, SIDE, SIDE), dtype=np.float32)
ordinary = st.integers(2, VOCABULARY - 1)
not_forced = ordinary.filter(lambda token: token != FORCED)  # a forced end would be the only answer of every beam


@dataclass(frozen=True)
class Pair:
    """A model of transformers, and what serves the same weights."""

    theirs: Any
    ours: Any


def language_model(name, place):
    return KINDS[name].model, KINDS[name].save(place / name), LanguageModel


def translator(place):
    return KINDS["marian"].model, KINDS["marian"].save(place / "marian"), TranslationModel


def captioner(place):
    """One whose captions begin with a token that is forced."""
    folder = vit_gpt2(place / "captioner", n_positions=CAPACITY)
    rewrite(folder / "generation_config.json", forced_bos_token_id=FORCED)
    return VisionEncoderDecoderModel, folder, CaptionModel


MAKERS = {
    "gpt2": lambda place: language_model("gpt2", place),
    "llama": lambda place: language_model("llama", place),
    "marian": translator,
    "vision-encoder-decoder": captioner,
}


SLOW = {"gpt2", "llama", "vision-encoder-decoder"}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in MAKERS],
)
def pair(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("pairs")
    kind, folder, served = MAKERS[request.param](place)
    import_checkpoint(folder, place / "imported", max_length=CAPACITY)
    manifest, _ = export_onnx(str(place / "imported"), place / "artefact")
    settings = EngineSettings(max_num_seqs=SLOTS, max_prefill_tokens=10)
    return Pair(kind.from_pretrained(folder).eval(), served(place / "artefact", manifest, settings=settings))


def questions(served):
    """What one is asked: the beginning of a text and more, a source, or the number of an image."""
    if isinstance(served, CaptionModel):
        return st.integers(0, len(IMAGES) - 1)
    if isinstance(served, TranslationModel):
        return st.lists(ordinary, min_size=1, max_size=12)
    rest = st.lists(ordinary, min_size=1, max_size=3)
    return st.builds(lambda length, more: [*TEXT[:length], *more], st.integers(0, LONGEST_PROMPT), rest)


@st.composite
def wishes(draw):
    """Options of greedy decoding or of a beam search."""
    width = draw(st.sampled_from([1, 1, 2, 3, 4]))
    stop_token_ids = draw(st.frozensets(not_forced, max_size=2))
    pushed = {END, *stop_token_ids} if draw(st.booleans()) else set()
    biased = draw(st.frozensets(ordinary, max_size=2)) | pushed
    most = draw(st.integers(2, 12))
    beams = {
        "n": draw(st.integers(1, width)),
        "length_penalty": draw(st.sampled_from([0.0, 1.0, -1.0, 0.6, 2.0])),
        "early_stopping": draw(st.sampled_from(EARLY_STOPPING)),
    }
    return SamplingParams(
        max_tokens=most,
        min_tokens=draw(st.sampled_from([0, 0, 1, most])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 1.2, 0.8])),
        presence_penalty=draw(st.sampled_from([0.0, 0.0, 0.5])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.0, 0.3])),
        logit_bias={token: round(draw(st.floats(-2, 6)), 3) for token in sorted(biased)},
        stop_token_ids=tuple(stop_token_ids),
        ignore_eos=draw(st.booleans()),
        beam_width=width,
        **(beams if width > 1 else {"num_speculative_tokens": draw(st.sampled_from([0, 0, 3]))}),
    )


def wanted(pair, question, options):
    """Of each of transformers' answers the tokens, why it ended, and its score."""
    if isinstance(pair.ours, CaptionModel):
        subject = {"pixel_values": torch.from_numpy(IMAGES[question])[None]}
    else:
        ids = torch.tensor([question])
        subject = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    length = len(question) if isinstance(pair.ours, LanguageModel) else 1
    rules = TokenRules(end=frozenset() if options.ignore_eos else frozenset({END}))
    return their_answers(pair.theirs, subject, length, options, rules)


def answers(served, asked):
    """The same of ours, all requests together; and how many sequences were decoded at once."""
    said = [[] for _ in asked]
    for (question, options), pieces in zip(asked, said, strict=True):
        subject = IMAGES[question] if isinstance(served, CaptionModel) else question
        served.engine.submit(served.request(subject, options), pieces.append)
    most = 0
    while served.engine.step():
        most = max(most, served.engine.meter.active)
    return [collected(pieces) for pieces in said], most


def collected(pieces):
    candidates = [[piece for piece in pieces if piece.candidate == one] for one in range(1 + pieces[-1].candidate)]
    return [
        (tuple(token for piece in own for token in piece.token_ids), own[-1].finish_reason, own[-1].score)
        for own in candidates
    ]


def close(answers):
    return [(tokens, why, None if score is None else pytest.approx(score, **SCORES)) for tokens, why, score in answers]


def test_whatever_is_asked_together_is_answered_as_transformers_answers_it_alone(pair):
    seen, most = set(), 0

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
    @given(st.lists(st.tuples(questions(pair.ours), wishes()), min_size=TOGETHER, max_size=TOGETHER, unique_by=repr))
    def compare(asked):
        nonlocal most
        found, active = answers(pair.ours, asked)
        for one, (question, options) in zip(found, asked, strict=True):
            assert one == close(wanted(pair, question, options)), (question, options)
        seen.update(map(repr, asked))
        most = max(most, active)

    compare()
    assert (most, len(seen) >= 80) == (SLOTS, True), f"{len(seen)} requests, {most} sequences at once"
