"""A language model without a tokenizer: imported, exported, laid out and served, it continues token ids."""

import json

import httpx
import pytest
import torch
from playwright.sync_api import expect
from transformers import LlamaForCausalLM

from export.artefact.stage import export_onnx
from models.checkpoints.importers.importing import import_checkpoint
from tests.end_to_end.asking import PATIENCE_S, python_m
from tests.end_to_end.browsers import browser as started_browser
from tests.end_to_end.browsers import clean_page
from tests.end_to_end.gateways import started as started_gateway
from tests.end_to_end.servers import started
from tests.models.checkpoints.importers.test_llama import llama

PROMPT, COUNT = [5, 6, 7], 6


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("token-ids")
    theirs = llama(folder / "theirs")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (theirs / name).unlink()
    done = import_checkpoint(theirs, folder / "ours", name="numbers")
    assert any("token ids alone" in note for note in done.notes)
    export_onnx(str(folder / "ours"), folder / "artefact")
    return folder


@pytest.fixture(scope="module")
def laid_out(place):
    done = python_m("attendant", "repository", place / "artefact", "--out", place / "repository")
    assert done.returncode == 0 and "no tokenizer: it is served for token ids alone" in done.stdout
    return place / "repository"


@pytest.fixture(scope="module")
def server_of_tokens(laid_out):
    with started(laid_out) as running:
        yield running.endpoints


@pytest.fixture(scope="module")
def gateway(server_of_tokens):
    with started_gateway(server_of_tokens.grpc) as running:
        yield running.url


@pytest.fixture(scope="module")
def answer(place):
    """What transformers says after the prompt."""
    theirs = LlamaForCausalLM.from_pretrained(place / "theirs").eval()
    return theirs.generate(torch.tensor([PROMPT]), max_new_tokens=COUNT, do_sample=False)[0, len(PROMPT) :].tolist()


def test_the_command_line_takes_tokens_and_prints_tokens(server_of_tokens, answer):
    asked = ("attendant", "generate", "--server", server_of_tokens.grpc, "--max-tokens", COUNT)
    done = python_m(*asked, "--token-ids", *PROMPT)
    assert (done.returncode, done.stdout.split()) == (0, list(map(str, answer)))
    refused = python_m(*asked, "the house")
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert "expected token ids, as this model has no tokenizer; found a text" in refused.stderr


def test_it_is_healthy(server_of_tokens):
    done = python_m("attendant", "health", "--server", server_of_tokens.grpc)
    assert done.returncode == 0, done.stderr


def test_openais_api_takes_and_answers_tokens(gateway, answer):
    def post(path, **body):
        return httpx.post(f"{gateway}{path}", json={"model": "numbers", **body}, timeout=PATIENCE_S)

    greedy = {"prompt": PROMPT, "max_tokens": COUNT, "temperature": 0}
    choice = post("/v1/completions", **greedy).json()["choices"][0]
    assert (choice["text"], choice["token_ids"], choice["finish_reason"]) == ("", answer, "length")
    lines = post("/v1/completions", **greedy, stream=True).text.split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert [token for event in events for token in event["choices"][0]["token_ids"]] == answer
    scored = post("/v1/completions", **greedy, logprobs=1, echo=True).json()["choices"][0]
    assert scored["logprobs"]["tokens"] == [f"token_id:{token}" for token in (*PROMPT, *answer)]
    assert scored["token_ids"] == answer
    for refused in (
        post("/v1/completions", prompt="the house"),
        post("/v1/completions", **greedy, stop="a"),
        post("/v1/completions", **greedy, guided_regex="a"),
        post("/tokenize", prompt="the house"),
        post("/detokenize", tokens=PROMPT),
    ):
        assert refused.status_code == 400 and "this model has no tokenizer" in refused.json()["error"]["message"]
    assert httpx.get(f"{gateway}/v1/models/numbers").json()["token_ids_only"] is True


def test_the_page_says_so_and_takes_numbers(gateway, answer):
    with started_browser() as browser, clean_page(browser, f"{gateway}/#numbers") as page:
        expect(page.get_by_text("This model has no tokenizer")).to_be_visible()
        page.get_by_label("Token ids").fill(" ".join(map(str, PROMPT)))
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Max tokens").fill(str(COUNT))
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("p.prose")).to_have_text(" ".join(map(str, [*PROMPT, *answer])), timeout=1e3 * PATIENCE_S)
