import pytest
import torch

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from models.checkpoints.resolve import checkpoint_named
from models.train.date_data import held_out
from serving.engine.sampling.beam_search import BeamSearch
from serving.engine.sampling.token_rules import TokenRules
from serving.engine.text_generation_model import LanguageModel, TranslationModel
from tests.text_checkpoints import OTHER_PROMPT, PROMPT

BEAMS = SamplingParams(beam_width=3, n=3, max_tokens=12)


def answers(served, asked):
    said = [[] for _ in asked]
    for (text, options), pieces in zip(asked, said, strict=True):
        served.engine.submit(served.request(text, options), pieces.append)
    while served.engine.step():
        pass
    return said


def test_beams_that_no_token_may_go_on_are_their_own_requests_error(language_model):
    generator = LanguageModel(language_model, Manifest.read(language_model))
    every = tuple(range(generator.vocabulary_size))
    well = (PROMPT, SamplingParams(max_tokens=5))
    alone = answers(generator, [well])
    options = SamplingParams(beam_width=3, min_tokens=1, max_tokens=5)
    object.__setattr__(options, "stop_token_ids", every)  # more than a request may name
    stuck = (OTHER_PROMPT, options)
    error, *rest = answers(generator, [stuck, well, (OTHER_PROMPT, SamplingParams(beam_width=2, max_tokens=3))])
    assert isinstance(error[0], InputError) and "none as token 1" in str(error[0])
    assert rest[0] == alone[0] and len(rest[1][0].token_ids) == 3
    assert generator.engine.meter.active == 0, "and its slot is free"


@torch.no_grad()
def eager_beams(model, source, options):
    """The search over the full forward pass of the eager model, without a cache."""
    rules, rows = TokenRules(end=frozenset({model.config.end_token})), [[model.config.start_token]]
    search, source = BeamSearch(options, rules, rows[0], options.max_tokens), torch.tensor([source])
    while True:
        sources = source.expand(len(rows), -1)
        logits = model(sources, torch.ones_like(sources, dtype=torch.bool), torch.tensor(rows))[:, -1]
        advance = search.advance(logits.numpy())
        if advance is None:
            return [(one.tokens, one.finish_reason, pytest.approx(one.score, abs=1e-4)) for one in search.best()]
        rows = [[*rows[parent], token] for parent, token in zip(advance.parents, advance.tokens, strict=True)]


@pytest.mark.parametrize(
    ("name", "artefact"), [("dates-transformer", "dates_artefact"), ("dates-gru", "explained_gru")]
)
def test_beams_that_share_a_batch_are_those_of_the_eager_model_whatever_it_remembers(name, artefact, request):
    folder = request.getfixturevalue(artefact)
    translator = TranslationModel(folder, Manifest.read(folder))
    texts, model = [text for text, _ in held_out(3)], checkpoint_named(name).model
    found = answers(translator, [(text, BEAMS) for text in texts])
    for text, pieces in zip(texts, found, strict=True):
        wanted = eager_beams(model, translator.tokenizer.encode(text, 48), BEAMS)
        assert [(piece.token_ids, piece.finish_reason, piece.score) for piece in pieces] == wanted
