"""An empty directory with a project of one's own, and one command: to right answers over HTTP and on a page."""

import io
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch import nn

from commands.model_paths import prepare_here
from serving.gateway.middleware.keys import new_key
from serving.triton.server.ports import free_ports
from tests.end_to_end.browsers import browser as started_browser
from tests.end_to_end.browsers import clean_page
from tests.end_to_end.documents import environment
from tests.end_to_end.gateways import started
from tests.end_to_end.test_playground import AUDIT
from tests.models.checkpoints.custom_models import write_project
from tests.models.checkpoints.importers.quantised.ggufs import KIND, theirs_of, write_gguf

START_S = 600  # of patience; 90 s are promised on two cores that nobody else uses
NPY, NPZ = "application/x-npy", "application/x-npz"


@contextmanager
def attendant_serve(folder, *paths):
    """``attendant serve PATH…`` in a folder: the gateway's address, and Triton's."""
    grpc, metrics, gateway = free_ports(3)
    ports = ("--grpc-port", str(grpc), "--metrics-port", str(metrics), "--gateway-port", str(gateway))
    command = [str(Path(sys.executable).with_name("attendant")), "serve", *paths, *ports]
    variables = {**environment(), "XDG_CACHE_HOME": str(folder / "cache")}
    server = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        assert "every model answered its example" in server.stdout.readline()
        yield f"http://127.0.0.1:{gateway}", f"127.0.0.1:{grpc}"
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=240)
    assert server.returncode == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    write_project(folder)
    return folder


@pytest.fixture(scope="module")
def served(place):
    began = time.monotonic()
    with attendant_serve(place, "./serve_me.py") as addresses:
        assert time.monotonic() - began < START_S
        yield addresses


@pytest.fixture
def http(served):
    with httpx.Client(base_url=served[0], timeout=60) as client:
        yield client


def wanted(rows):
    torch.manual_seed(0)
    return nn.Linear(4, 3)(torch.tensor(rows, dtype=torch.float32)).detach().numpy()


ROWS = [[0.1, 0.2, 0.3, 0.4], [4.0, -3.0, 2.0, -1.0]]


def test_an_answer_over_http_is_the_modules_with_the_labels_of_its_rows(http):
    found = http.post("/v1/predict", json={"model": "mine", "inputs": {"x": ROWS}}).json()
    np.testing.assert_allclose(found["outputs"]["scores"], wanted(ROWS), rtol=1e-5)
    assert found["labels"] == {"scores": [("a", "b", "c")[index] for index in wanted(ROWS).argmax(1)]}
    assert "label_names" not in found
    named = http.post("/v1/predict?label_names=true", json={"model": "mine", "inputs": {"x": ROWS}}).json()
    assert named == {**found, "label_names": ["a", "b", "c"]}


def test_numpys_files_are_taken_and_given(http):
    rows = np.asfortranarray(ROWS, np.float64)  # converted to the model's type, and of any order
    one, several = io.BytesIO(), io.BytesIO()
    np.save(one, rows)
    np.savez_compressed(several, x=rows)
    for kind, body in ((NPY, one), (NPZ, several)):
        sent = {"params": {"model": "mine"}, "content": body.getvalue()}
        found = http.post("/v1/predict", **sent, headers={"Content-Type": kind, "Accept": kind})
        assert found.headers["content-type"] == kind
        read = np.load(io.BytesIO(found.content))
        np.testing.assert_allclose(read if kind == NPY else read["scores"], wanted(ROWS), rtol=1e-5)
        assert "outputs" in http.post("/v1/predict", **sent, headers={"Content-Type": kind}).json()


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"model": "mine", "inputs": {"y": ROWS}}, 400, "the inputs ['x']"),
        ({"model": "mine", "inputs": {"x": [[1, 2]]}}, 400, "batch"),
        ({"model": "mine", "inputs": {"x": [[1, 2], [1]]}}, 400, "rows of numbers of equal lengths for 'x'"),
        ({"model": "mine", "inputs": {"x": ROWS}, "extra": 1}, 400, "extra"),
        ({"model": "yours", "inputs": {"x": ROWS}}, 404, "yours"),
    ],
)
def test_a_mistake_is_told(http, body, status, message):
    found = http.post("/v1/predict", json=body)
    assert (found.status_code, message in found.json()["error"]["message"]) == (status, True), found.text


def test_another_content_type_is_refused_by_name(http):
    found = http.post("/v1/predict", content=b"1,2", headers={"Content-Type": "text/csv"})
    assert found.status_code == 415 and NPZ in found.json()["error"]["message"]


def test_the_card_says_the_contract(http):
    card = http.get("/v1/models/mine").json()
    assert card["inputs"] == [{"name": "x", "dtype": "float32", "shape": [4]}]
    assert (card["outputs"], card["label_names"]) == ({"scores": [3]}, ["a", "b", "c"])


def test_keys_quotas_and_metrics_know_the_route(served, tmp_path):
    keys = tmp_path / "keys.json"
    secret = new_key(keys, "tests", requests="2/hour")
    with started(served[1], keys=keys) as gateway, httpx.Client(base_url=gateway.url, timeout=60) as client:
        ask = {"url": "/v1/predict", "json": {"model": "mine", "inputs": {"x": ROWS}}}
        assert client.post(**ask).status_code == 401
        headers = {"Authorization": f"Bearer {secret}"}
        assert [client.post(**ask, headers=headers).status_code for _ in range(3)] == [200, 200, 429]
        assert 'model="mine"' in client.get("/metrics", headers=headers).text


def test_the_page_draws_the_inputs_and_an_unknown_name_says_so(served):
    with started_browser() as browser:
        with clean_page(browser, f"{served[0]}/#mine", expected_errors=("400 (Bad Request)",)) as page:
            expect(page.locator("#server")).to_have_text("1 model ready")
            expect(page.get_by_label("x", exact=True)).to_have_value("[0.5,0.5,0.5,0.5]")
            page.get_by_label("x", exact=True).fill("[4, -3, 2, -1]")
            page.get_by_role("button", name="Predict").click()
            best = ("a", "b", "c")[wanted(ROWS)[1].argmax()]
            expect(page.locator(".bars .label").first).to_have_text(best)
            assert page.evaluate(AUDIT) == []
            rows = io.BytesIO()
            np.save(rows, np.array(ROWS))
            chosen = {"name": "rows.npy", "mimeType": "", "buffer": rows.getvalue()}
            page.get_by_label("Open NumPy file").set_input_files(chosen)
            expect(page.locator(".bars .label").first).to_have_text(("a", "b", "c")[wanted(ROWS)[0].argmax()])
            page.get_by_label("Open NumPy file").set_input_files({**chosen, "buffer": b"none"})
            expect(page.locator(".failure")).to_contain_text("npy")
            page.get_by_label("x", exact=True).fill("[4,")
            page.get_by_role("button", name="Predict").click()
            expect(page.locator(".failure.at-field")).to_contain_text("JSON in x")
        with clean_page(browser, f"{served[0]}/#yours") as page:
            expect(page.locator("#failure")).to_contain_text('No model "yours" here')
            expect(page.locator("#workspace")).to_be_hidden()
            page.get_by_role("radio", name="mine").check()
            expect(page.locator("#failure")).to_be_hidden()
            expect(page.get_by_label("x", exact=True)).to_be_visible()


@pytest.mark.slow
def test_a_gguf_file_is_served_with_its_attention_in_one_command(tmp_path):
    theirs = theirs_of(tmp_path / "theirs")
    (tmp_path / "gguf").mkdir()
    write_gguf(theirs, tmp_path / "gguf" / "tiny.gguf", KIND.Q8_0)  # which puts the file's numbers into the model
    with (
        attendant_serve(tmp_path, "gguf/tiny.gguf", "--explain") as (gateway, _),
        httpx.Client(base_url=gateway) as http,
    ):
        asked = {"model": "tiny", "prompt": "the hat", "max_tokens": 1, "temperature": 0, "logprobs": 1}
        (choice,) = http.post("/v1/completions", json=asked, timeout=60).json()["choices"]
        ids = http.post("/tokenize", json={"model": "tiny", "prompt": "the hat"}).json()["tokens"]
        with torch.no_grad():
            wanted = theirs(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        assert choice["logprobs"]["token_logprobs"] == pytest.approx([wanted.max().item()], abs=0.05)
        shown = http.post("/v1/explain", json={"model": "tiny", "input": "the hat", "max_tokens": 2}, timeout=60).json()
        np.testing.assert_allclose(np.sum(shown["alignment"], axis=-1), 1.0, atol=1e-3)


def test_the_second_time_it_comes_from_the_cache(served, place, capfd, monkeypatch):
    monkeypatch.chdir(place)
    prepared = prepare_here(place / "cache" / "attendant", ["./serve_me.py"])
    assert prepared.models == ("mine",)
    shown = capfd.readouterr().err
    assert "mine: exported before" in shown and "mine: verified before" in shown
