"""``/v1/explain`` before a real Triton: it shows what models/explain finds offline, as arrays and as pictures."""

import io
import json

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

from attendant.images import pixels_from_file
from attendant.tokenization import load_tokenizer
from models.checkpoints.resolve import checkpoint_named
from models.explain.captions import caption_attention, word_maps
from models.explain.images import attention_maps, class_rollout
from models.explain.observe import observe
from models.explain.windows import received_attention
from tests.conftest import LANGUAGE_MODEL, ROOT

THREE, PAIR = ROOT / "docs/examples/three.png", ROOT / "docs/examples/pair.png"
TEXT = "3rd of march 1997"


@pytest.fixture(scope="module")
def http(shipped_gateway):
    with httpx.Client(base_url=shipped_gateway.url, timeout=60) as client:
        yield client


def explain(http, model, image=None, **asked):
    if image is None:
        return http.post("/v1/explain", json={"model": model, **asked})
    return http.post("/v1/explain", data={"model": model, **asked}, files={"image": image.read_bytes()})


def maps(answer):
    assert answer.status_code == 200, answer.text
    return {one["title"]: np.array(one["values"]) for one in answer.json()["maps"]}


def pixels(name, path):
    checkpoint = checkpoint_named(name)
    return checkpoint.model, torch.from_numpy(pixels_from_file(path, checkpoint.details["preprocessing"]))[None]


def picture(answer):
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/png", answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGB")).astype(int)


def test_a_rollout_is_the_eager_models(http):
    answer = explain(http, "digits-vit", THREE)
    np.testing.assert_allclose(maps(answer)["rollout"], class_rollout(*pixels("digits-vit", THREE))[0], atol=1e-4)
    said = answer.json()
    assert (said["kind"], said["answer"], len(said["labels"])) == ("rollout", "3", 5)


def test_attention_is_what_the_class_token_looks_at_and_one_layer_and_head_can_be_asked_for(http):
    last_HSS = attention_maps(*pixels("digits-vit", THREE))[-1][0]
    every = maps(explain(http, "digits-vit", THREE, kind="attention"))
    assert len(every) == 4 * len(last_HSS)
    for head, one in enumerate(last_HSS[:, 0, 1:], start=1):
        np.testing.assert_allclose(every[f"layer 4, head {head}"].reshape(-1), one, atol=1e-4)
    (chosen,) = explain(http, "digits-vit", THREE, kind="attention", layer=4, head=2).json()["maps"]
    assert (chosen["layer"], chosen["head"]) == (4, 2)
    # The same computation twice, in one process.
    np.testing.assert_array_equal(chosen["values"], every["layer 4, head 2"])


def test_windows_receive_what_those_of_the_eager_model_do(http):
    offline = received_attention(*pixels("digits-swin", THREE)).values()
    served = maps(explain(http, "digits-swin", THREE))
    for number, one in enumerate(offline, start=1):
        np.testing.assert_allclose(served[f"layer {number}"], one[0], atol=1e-4)
    assert len(served) == len(offline)


@pytest.mark.parametrize("name", ["digits-vit", "digits-swin"])
def test_occlusion_is_what_each_logit_loses_where_the_image_is_blanked(http, name):
    model, pixels_1CHW = pixels(name, THREE)
    blanked = pixels_1CHW.clone()
    blanked[..., 2:4, 4:6] = 0
    with torch.no_grad():
        lost_K = (model(pixels_1CHW) - model(blanked))[0]
    served = maps(explain(http, name, THREE, kind="occlusion"))
    assert len(served) == 5 and next(iter(served)) == "3"
    for label, one in served.items():
        assert one.shape == (4, 4)
        assert one[1, 2] == pytest.approx(float(lost_K[int(label)]), abs=1e-3)
    assert maps(explain(http, name, THREE, kind="occlusion", label="8")).keys() == {"8"}


@pytest.mark.parametrize("name", ["dates-transformer", "dates-gru"])
def test_a_translation_is_told_with_its_alignment_whole_and_in_a_stream(http, name):
    whole = explain(http, name, input=TEXT).json()
    assert (whole["answer"], "".join(whole["source"]), "".join(whole["tokens"])) == ("1997-03-03", TEXT, "1997-03-03")
    weights_TS = np.array(whole["alignment"])
    assert weights_TS.shape == (10, 17)
    assert [whole["source"][at] for at in weights_TS[:4].argmax(1)] in (["9", "9", "9", "7"], ["1", "9", "9", "7"])
    asked = {"model": name, "input": TEXT, "stream": True}
    said = events(http.post("/v1/translate", json={**asked, "explain": True}))
    assert [token for piece in said for token in piece.get("tokens", [])] == whole["tokens"]
    np.testing.assert_allclose([row for piece in said for row in piece.get("alignment", [])], weights_TS, atol=2e-4)
    assert said[0]["source"] == whole["source"] and all("source" not in piece for piece in said[1:])
    assert all(len(piece["alignment"]) == len(piece["token_ids"]) for piece in said if "token_ids" in piece)
    assert not any(
        {"alignment", "source", "tokens"} & piece.keys() for piece in events(http.post("/v1/translate", json=asked))
    )


def test_a_continuation_is_told_with_its_attention_to_all_before_each_token_whole_and_in_a_stream(http):
    checkpoint = checkpoint_named("stdlib-lm")
    whole = explain(http, "stdlib-lm", input="Open a file and", max_tokens=6).json()
    assert "".join(whole["source"]) == "Open a file and" and "".join(whole["tokens"]) == whole["answer"]
    prompt, weights_TS = load_tokenizer(checkpoint.folder, None).encode("Open a file and", 100), whole["alignment"]
    asked = {"model": "stdlib-lm", "prompt": "Open a file and", "max_tokens": 6, "temperature": 0}
    said = events(http.post("/v1/completions", json={**asked, "stream": True, "explain": True}))
    choices = [choice for event in said for choice in event["choices"]]
    rows = [row for choice in choices for row in choice.get("alignment", [])]
    assert len(rows) == 6
    for at, row in enumerate(rows):  # those of one event end in zeros, as wide as its last
        assert len(row) >= len(prompt) + at and not any(row[len(prompt) + at :])
    assert np.shape(weights_TS) == (6, len(prompt) + 5)
    for row, padded in zip(rows, weights_TS, strict=True):
        np.testing.assert_allclose(row, padded[: len(row)], atol=2e-4)
        assert not any(padded[len(row) :])
    tokens = http.post("/v1/completions", json={**asked, "logprobs": 0, "return_tokens_as_token_ids": True}).json()
    ids = [int(one.removeprefix("token_id:")) for one in tokens["choices"][0]["logprobs"]["tokens"]]
    with torch.no_grad(), observe(checkpoint.model) as seen:
        checkpoint.model(torch.tensor([[*prompt, *ids[:-1]]]))
    expected_TS = list(seen.values())[-1][0][0].mean(0)[len(prompt) - 1 :]
    np.testing.assert_allclose(weights_TS, expected_TS, atol=2e-4)
    assert choices[0]["source"] == whole["source"] and [one for c in choices for one in c["tokens"]] == whole["tokens"]
    assert not {"alignment", "source", "tokens"} & tokens["choices"][0].keys()
    assert len(explain(http, "stdlib-lm", input="Open").json()["tokens"]) <= 32
    drawn = picture(explain(http, "stdlib-lm", input="Open a file and", max_tokens=6, format="png"))
    assert drawn.shape[0] > 6 * 24 and drawn.shape[1] > (len(prompt) + 5) * 24


def test_a_model_that_was_exported_without_its_explanation_is_refused(gateway):
    for path, body in (
        ("explain", {"model": LANGUAGE_MODEL, "input": "the cat"}),
        ("completions", {"model": LANGUAGE_MODEL, "prompt": "the cat", "max_tokens": 2, "explain": True}),
    ):
        refused = httpx.post(f"{gateway.url}/v1/{path}", json=body, timeout=60)
        assert refused.status_code == 400
        assert "a model that shows what it attends to" in refused.json()["error"]["message"]


def test_each_word_of_a_caption_has_a_map(http):
    model, pixels_1CHW = pixels("digits-captioner", PAIR)
    answer = explain(http, "digits-captioner", PAIR)
    served = [np.array(one["values"]) for one in answer.json()["maps"]]
    said = answer.json()
    assert (said["answer"], [token.strip() for token in said["tokens"]]) == (
        "a three left of an eight",
        ["a", "three", "left", "of", "an", "eight"],
    )
    stream = events(
        http.post(
            "/v1/caption", data={"model": "digits-captioner", "stream": "true"}, files={"image": PAIR.read_bytes()}
        )
    )
    ids = [token for piece in stream for token in piece.get("token_ids", [])]
    offline = word_maps(caption_attention(model, pixels_1CHW, torch.tensor([[1, *ids[:-1]]])))[0]
    np.testing.assert_allclose(served, offline, atol=1e-4)


def test_a_picture_glows_where_its_map_is_largest(http, tmp_path):
    black = tmp_path / "black.png"
    Image.new("L", (8, 8)).save(black)
    map_hw = maps(explain(http, "digits-vit", black))["rollout"]
    overlay = picture(explain(http, "digits-vit", black, format="png"))
    assert overlay.shape == (256, 256, 3)
    glow = overlay.sum(-1).reshape(4, 64, 4, 64).mean((1, 3))
    assert glow.argmax() == map_hw.argmax() and glow.argmin() == map_hw.argmin()


def test_a_picture_of_several_maps_has_a_panel_for_each(http):
    one = picture(explain(http, "digits-vit", THREE, kind="attention", layer=1, format="png")).shape
    every = picture(explain(http, "digits-vit", THREE, kind="attention", format="png")).shape
    assert every[1] == one[1] and every[0] > 3.5 * one[0]
    assert picture(explain(http, "digits-captioner", PAIR, format="png")).shape[1] > 700


def test_an_alignment_is_darkest_where_its_weight_is_largest(http):
    weights_TS = np.array(explain(http, "dates-gru", input=TEXT).json()["alignment"])
    drawn = picture(explain(http, "dates-gru", input=TEXT, format="png"))
    cells = drawn[-6 - 240 : -6, -6 - 17 * 24 : -6].reshape(10, 24, 17, 24, 3)[:, 6:18, :, 6:18].mean((1, 3, 4))
    np.testing.assert_array_equal(cells.argmin(1), weights_TS.argmax(1))


@pytest.mark.parametrize(
    ("model", "asked", "says"),
    [
        ("stdlib-lm", {}, "the text to continue"),
        ("stdlib-lm", {"input": "a", "max_tokens": 0}, "max_tokens"),
        ("stdlib-lm", {"input": "a", "kind": "rollout"}, "['alignment']"),
        ("nobody", {"input": "a"}, "nobody"),
        ("dates-gru", {}, "the text to translate"),
        ("dates-gru", {"input": "§"}, "§"),
        ("dates-gru", {"input": TEXT, "kind": "rollout"}, "['alignment']"),
        ("dates-gru", {"input": TEXT, "layer": 1}, "no layer for alignment"),
        ("dates-gru", {"input": TEXT, "format": "gif"}, "format"),
        ("digits-vit", {"input": "a"}, "an image for 'digits-vit'"),
        ("digits-vit", {"kind": "alignment"}, "'occlusion'"),
    ],
)
def test_a_mistake_is_told_with_a_remedy(http, model, asked, says):
    answer = explain(http, model, **asked)
    assert answer.status_code in (400, 404) and says in answer.json()["error"]["message"]


def test_an_image_that_is_none_is_refused(http):
    for image, says in (("!", "base64"), ("aGVsbG8=", "an image file")):
        refused = http.post("/v1/explain", json={"model": "digits-vit", "image": image})
        assert refused.status_code == 400 and says in refused.json()["error"]["message"]


def test_a_layer_or_label_that_there_is_not_is_refused(http):
    for asked, says in (
        ({"kind": "attention", "layer": 9}, "a layer from 1 to 4 and a head from 1 to 4"),
        ({"kind": "occlusion", "label": "x"}, "a label, one of"),
    ):
        refused = explain(http, "digits-vit", THREE, **asked)
        assert refused.status_code == 400 and says in refused.json()["error"]["message"]


def test_a_card_says_what_can_be_shown(http):
    kinds = {card["id"]: card["explains"] for card in http.get("/v1/models").json()["data"]}
    assert kinds == {
        "dates-gru": ["alignment"],
        "dates-transformer": ["alignment"],
        "digits-captioner": ["alignment"],
        "digits-swin": ["received", "occlusion"],
        "digits-vit": ["rollout", "attention", "occlusion"],
        "stdlib-lm": ["alignment"],
    }


def events(answer):
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]
