"""The gateway before a real Triton, asked by the official client."""

import pytest
from openai import NotFoundError, OpenAI

from tests.conftest import DATES, EVERY_TASK, LANGUAGE_MODEL
from tests.text_checkpoints import PROMPT, STOPS_AFTER


@pytest.fixture(scope="module")
def openai(gateway):
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_every_model_is_listed_with_what_it_can_be_asked(openai):
    cards = {card.id: card.model_extra for card in openai.models.list()}
    assert cards.keys() == set(EVERY_TASK)
    assert cards[LANGUAGE_MODEL]["task"] == "generate" and "top_k" in cards[LANGUAGE_MODEL]["options"]
    assert cards["digits-vit"]["image_size"] == [8, 8] and cards["digits-vit"]["labels"] == 10


def test_a_greedy_completion_is_the_models(openai, language_model):
    from models.manifest import Manifest

    example = Manifest.read(language_model).example
    answer = openai.completions.create(model=LANGUAGE_MODEL, prompt=PROMPT, temperature=0, max_tokens=STOPS_AFTER)
    assert answer.choices[0].text == example["answer"]
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == STOPS_AFTER and answer.usage.prompt_tokens == 9


def test_a_model_of_another_task_is_not_found(openai):
    with pytest.raises(NotFoundError, match="can generate"):
        openai.completions.create(model=DATES, prompt=PROMPT)
