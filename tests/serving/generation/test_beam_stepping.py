import pytest

from models.errors import InputError
from models.manifest import Manifest
from serving.generation.generator import Generator
from serving.generation.options import DecodingOptions
from tests.text_checkpoints import OTHER_PROMPT, PROMPT


@pytest.fixture(scope="module")
def generator(language_model):
    return Generator(language_model, Manifest.read(language_model))


def answers(generator, asked):
    said = [[] for _ in asked]
    for (text, options), pieces in zip(asked, said, strict=True):
        generator.engine.submit(generator.request(text, options), pieces.append)
    while generator.engine.step():
        pass
    return said


def test_beams_that_no_token_may_go_on_are_their_own_requests_error(generator):
    every = tuple(range(generator.vocabulary_size))
    well = (PROMPT, DecodingOptions(max_tokens=5))
    alone = answers(generator, [well])
    stuck = (OTHER_PROMPT, DecodingOptions(beam_width=3, stop_ids=every, min_tokens=1, max_tokens=5))
    error, *rest = answers(generator, [stuck, well, (OTHER_PROMPT, DecodingOptions(beam_width=2, max_tokens=3))])
    assert isinstance(error[0], InputError) and "none as token 1" in str(error[0])
    assert rest[0] == alone[0] and len(rest[1][0].token_ids) == 3
    assert generator.engine.meter.active == 0, "and its slot is free"
