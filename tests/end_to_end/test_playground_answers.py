"""What the page does around an answer: errors at fields, answers that stay, requests to copy, an offline reference."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from playwright.sync_api import expect

from serving.gateway.middleware.keys import new_key
from tests.end_to_end.browsers import browser as started_browser
from tests.end_to_end.browsers import clean_page
from tests.end_to_end.documents import environment
from tests.end_to_end.gateways import started
from tests.end_to_end.test_playground import AUDIT, PAIR, PHONE, THREE, answer_label, button, field, latency, tokens

HOSTILE = (
    'it\'s "quoted" $(touch pwned) `touch pwned` ${HOME} !! \\ \\n %s\nEND\n' + "'''\n{x} é 🙂 \u202e\u2028\x1b[31m\x00"
)


@pytest.fixture(scope="module")
def browser():
    with started_browser() as running:
        yield running


@pytest.fixture
def visit(browser, shipped_gateway):
    """Opens the page at a model; ``visit(model, **context)`` is a context manager."""
    return lambda model, **context: clean_page(browser, f"{shipped_gateway.url}/#{model}", **context)


def described(page, found):
    """The text that an input is described by."""
    ids = found.get_attribute("aria-describedby").split()
    return " ".join(page.locator(f"[id='{one}']").inner_text() for one in ids)


def test_an_error_stands_at_its_field_and_goes_when_it_is_mended(visit):
    with visit("dates-gru", expected_errors=("400 (Bad Request)",)) as page:
        text = field(page, "Text")
        tokens(page, 1, 10)
        text.fill("§")
        button(page, "Translate").click()
        page.get_by_role("alert").get_by_text("What to do").wait_for()
        expect(text).to_be_focused()
        assert text.get_attribute("aria-invalid") == "true" and "§" in described(page, text)
        assert page.locator("#failure").is_hidden() and page.evaluate(AUDIT) == []
        text.fill("7 may 2021")
        button(page, "Translate").click()
        expect(page.locator(".tokens").first).to_have_text("2021-05-07")
        assert page.get_by_role("alert").count() == 0
        assert text.get_attribute("aria-invalid") is None and text.get_attribute("aria-describedby") is None
        page.get_by_text("Sampling").click()
        field(page, "Max tokens").fill("5000")
        page.get_by_text("Sampling").click()
        button(page, "Translate").click()
        most = field(page, "Max tokens")
        expect(most).to_be_focused()
        assert "ask for fewer tokens" in described(page, most).lower() and "longest answer" in described(page, most)
        assert page.evaluate(AUDIT) == []


def test_an_error_of_no_field_stands_above_all(visit):
    with visit("dates-gru", expected_errors=("503",)) as page:
        tokens(page, 1, 10)
        page.route("**/v1/translate", lambda route: route.fulfill(status=503, json={"error": {"message": "later"}}))
        button(page, "Translate").click()
        page.locator("#failure").get_by_text("Not available").wait_for()


def asked(page):
    """The routes that are asked from now on."""
    paths = []
    page.on("request", lambda request: paths.append(request.url.rsplit("/v1/", 1)[-1]))
    return paths


def test_an_answer_stays_while_others_are_asked_and_across_a_reload(visit):
    with visit("digits-vit") as page:
        page.locator("input[type=file]").set_input_files(THREE)
        assert answer_label(page) == "3"
        expect(page.locator("#latency div")).to_have_count(2)
        board, took = page.locator("canvas.board").evaluate("one => one.toDataURL()"), latency(page)
        page.get_by_role("radio", name="digits-captioner").check()
        page.locator("input[type=file]").set_input_files(PAIR)
        page.get_by_text("Point at a word").wait_for()
        page.get_by_role("radio", name="dates-gru").check()
        field(page, "Text").fill("7 may 2021")
        button(page, "Translate").click()
        expect(page.locator(".tokens").first).to_have_text("2021-05-07")
        page.get_by_text("Point at a token").wait_for()
        page.get_by_role("radio", name="stdlib-lm").check()
        field(page, "Temperature").fill("0")
        field(page, "Max tokens").fill("7")
        button(page, "Continue").click()
        page.get_by_text("Point at a token").wait_for()
        written = page.locator(".prose").inner_text()
        paths = asked(page)
        for reload in (False, True):
            if reload:
                page.reload()
                expect(page.locator(".prose")).to_have_text(written)
            page.get_by_role("radio", name="dates-gru").check()
            expect(page.locator(".tokens").first).to_have_text("2021-05-07")
            assert field(page, "Text").input_value() == "7 may 2021"
            tokens(page, 0, 10).nth(9).hover()
            assert "“7”" in page.locator(".note").inner_text()
            page.get_by_role("radio", name="digits-captioner").check()
            expect(page.locator(".words .token")).to_have_text(["a", "three", "left", "of", "an", "eight"])
            page.get_by_role("radio", name="digits-vit").check()
            assert answer_label(page) == "3" and latency(page) == took
            assert page.locator("canvas.board").evaluate("one => one.toDataURL()") == board
            page.get_by_role("radio", name="stdlib-lm").check()
            expect(page.locator(".prose")).to_have_text(written)
            assert field(page, "Max tokens").input_value() == "7"
        assert [path for path in paths if path in ("classify", "explain", "caption", "translate", "completions")] == []
        assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        assert all(name.startswith("attendant-") for name in page.evaluate("Object.keys(sessionStorage)"))


def test_what_is_kept_is_bounded_and_what_cannot_be_shown_is_forgotten(visit):
    with visit("dates-gru") as page:
        tokens(page, 1, 10)
        kept = page.evaluate(
            """async () => {
                const { Keeper } = await import("/playground/keep.js");
                const keeper = (id) => new Keeper({ id, task: "translate" });
                keeper("large").keep({ text: "x".repeat(1 << 19) });
                for (let one = 0; one < 12; one += 1) {
                    keeper(`many ${one}`).keep({ text: "x".repeat(400000) });
                    await new Promise((done) => setTimeout(done, 2));
                }
                sessionStorage.setItem("attendant-answer:dates-gru", '{"task": "translate", "value": {"events": 7}}');
                return Object.entries({ ...sessionStorage }).map(([name, value]) => [name, value.length]);
            }"""
        )
        names = [name for name, _ in kept]
        assert sum(size for _, size in kept) < 2**21 + 2**10
        assert "attendant-answer:large" not in names and "attendant-answer:many 11" in names
        assert "attendant-answer:many 0" not in names
        page.reload()
        page.wait_for_timeout(300)
        assert page.evaluate("sessionStorage.getItem('attendant-answer:dates-gru')") is None


def copied(page, name):
    button(page, f"Copy as {name}").click()
    page.get_by_text("is copied").wait_for()
    return field(page, "What is copied").input_value()


def run_copied(name, text, folder, **variables):
    """What a copied command or program prints, as JSON."""
    command = ["bash", "-c", text] if name == "curl" else [sys.executable, "-c", text]
    whole = environment() | variables
    done = subprocess.run(command, cwd=folder, env=whole, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


COPYING = {"permissions": ["clipboard-read", "clipboard-write"]}


@pytest.mark.parametrize("name", ["curl", "Python"])
def test_what_is_copied_gives_the_answer_of_the_page(visit, name, tmp_path):
    with visit("dates-gru", **COPYING) as page:
        field(page, "Text").fill("7 may 2021")
        button(page, "Translate").click()
        expect(page.locator(".tokens").first).to_have_text("2021-05-07")
        text = copied(page, name)
        assert page.evaluate("navigator.clipboard.readText()") == text
        assert run_copied(name, text, tmp_path)["answers"][0]["text"] == "2021-05-07"
        assert page.evaluate(AUDIT) == []
        page.get_by_role("radio", name="stdlib-lm").check()
        field(page, "Prompt").fill("def it's(")
        field(page, "Temperature").fill("0")
        field(page, "Max tokens").fill("9")
        button(page, "Continue").click()
        page.get_by_text("Point at a token").wait_for()
        choice = run_copied(name, copied(page, name), tmp_path)["choices"][0]
        assert f"def it's({choice['text']}" == page.locator(".prose").inner_text()
        page.get_by_role("radio", name="digits-vit").check()
        page.locator("input[type=file]").set_input_files(THREE)
        assert run_copied(name, copied(page, name), tmp_path)["labels"][0]["label"] == answer_label(page) == "3"
        page.get_by_role("radio", name="digits-captioner").check()
        page.locator("input[type=file]").set_input_files(PAIR)
        page.get_by_text("Point at a word").wait_for()
        words = " ".join(page.locator(".words .token").all_inner_texts())
        assert run_copied(name, copied(page, name), tmp_path)["answers"][0]["text"].strip() == words


@contextmanager
def echo():
    """A server that answers with the body and the key of what it is sent; its address."""

    class Echo(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(
                {"body": body, "key": self.headers["Authorization"], "type": self.headers["Content-Type"]}
            )
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("name", ["curl", "Python"])
def test_hostile_texts_are_copied_as_what_they_are_and_a_key_never(visit, shipped_gateway, name, tmp_path):
    body = {"model": HOSTILE, "input": [HOSTILE, ""], "END": 1.5, HOSTILE: {"a'b": [True, None]}}
    script = """async ([body, name]) => {
        sessionStorage.setItem("attendant-key", "sk-very-secret");
        const { asCurl, asPython } = await import("/playground/copy.js");
        return (name === "curl" ? asCurl : asPython)({ path: "v1/translate", body: JSON.parse(body) });
    }"""
    with visit("digits-vit") as page, echo() as address:
        text = page.evaluate(script, [json.dumps(body), name])
        assert "sk-very-secret" not in text and "!" not in text.replace("#!", "")
        assert all(one.isprintable() or one == "\n" for one in text), "nothing that a terminal obeys"
        found = run_copied(
            name, text.replace(shipped_gateway.url, address), tmp_path, ATTENDANT_API_KEY="sk-of-the-reader"
        )
    assert found == {"body": body, "key": "Bearer sk-of-the-reader", "type": "application/json"}
    assert list(tmp_path.iterdir()) == [], "nothing in the text was run"


def test_a_malformed_address_names_no_model_and_harms_no_other(visit):
    with visit("%E0%A4%A") as page:
        page.get_by_text('no model "%E0%A4%A" here').wait_for()
        page.get_by_role("radio", name="dates-gru").check()
        expect(page.locator(".tokens").first).to_have_text("1997-03-03")


def test_models_that_do_not_answer_are_not_ready(visit, shipped_gateway):
    cards = httpx.get(f"{shipped_gateway.url}/v1/models").json()
    assert [card["ready"] for card in cards["data"]] == [True] * 6
    with visit("dates-gru") as page:
        page.get_by_text("6 models ready", exact=True).wait_for()
        for card in cards["data"][:2]:
            card["ready"] = False
        page.route("**/v1/models", lambda route: route.fulfill(json=cards))
        page.reload()
        page.get_by_text("4 of 6 models ready", exact=True).wait_for()
        page.unroute("**/v1/models")
        page.get_by_text("6 models ready", exact=True).wait_for()


PREDICT = """async ({ inputs, outputs }) => {
    const { predictView } = await import("/playground/predict.js");
    const card = { id: "mine", task: "predict", inputs, example: {}, label_names: ["of", "another", "load"] };
    const [question, answer] = [document.createElement("div"), document.createElement("div")];
    document.getElementById("question-body").replaceChildren(question);
    document.getElementById("answer-body").replaceChildren(answer);
    const value = { texts: [], outputs, labelled: ["scores"], names: ["a", "b", "c"], latency: [] };
    sessionStorage.setItem("attendant-answer:mine", JSON.stringify({ task: "predict", at: 0, value }));
    predictView(card, question, answer, new AbortController().signal);
}"""


def test_a_custom_model_may_have_large_inputs_and_scores_that_are_no_numbers(visit):
    image = {"name": "image", "dtype": "float32", "shape": [3, 2048, 2048]}
    with visit("dates-gru") as page:
        page.locator(".tokens").first.wait_for()
        page.evaluate(PREDICT, {"inputs": [image], "outputs": {"scores": [None, -2.5, 1]}})
        assert field(page, "image").input_value() == ""
        assert "a .npy file" in described(page, field(page, "image"))
        expect(page.locator(".bars .label")).to_have_text(["c", "b", "a"])
        expect(page.locator(".bars .share")).to_have_text(["1.000", "-2.500", "none"])


def test_with_keys_the_reference_asks_for_one_and_a_new_key_forgets_what_was_kept(browser, shipped_server, tmp_path):
    secret = new_key(tmp_path / "keys.json", "visitor", "", "")
    with (
        started(shipped_server.grpc, probe_s=60.0, keys=tmp_path / "keys.json") as gateway,
        clean_page(browser, f"{gateway.url}/docs", expected_errors=("401 (Unauthorized)",), **COPYING) as page,
    ):
        page.get_by_text("A key is needed").wait_for()
        page.get_by_role("link", name="Playground").click()
        page.evaluate("sessionStorage.setItem('attendant-answer:of another', '{}')")
        for mistaken in (f"{secret}\u200b", f"{secret} x", "ü"):  # which no header can carry
            field(page, "API key").fill(mistaken)
            button(page, "Use this key").click()
            assert page.evaluate("document.activeElement.id") == "key-value"
            assert "attendant-key" not in page.evaluate("Object.keys(sessionStorage)")
        field(page, "API key").fill(secret)
        button(page, "Use this key").click()
        page.get_by_text("6 models ready").wait_for()
        assert "attendant-answer:of another" not in page.evaluate("Object.keys(sessionStorage)")
        page.get_by_role("radio", name="dates-gru").check()
        expect(page.locator(".tokens").first).to_have_text("1997-03-03")
        text = copied(page, "curl")
        assert secret not in text and "ATTENDANT_API_KEY" in page.locator(".copy").inner_text()
        assert run_copied("curl", text, tmp_path, ATTENDANT_API_KEY=secret)["answers"][0]["text"] == "1997-03-03"
        page.goto(f"{gateway.url}/docs")
        page.get_by_role("heading", name="POST /v1/translate").wait_for()


@pytest.mark.parametrize("viewport", [PHONE, {"width": 1180, "height": 800}])
def test_the_reference_is_whole_without_any_other_server(browser, shipped_gateway, viewport):
    with clean_page(browser, f"{shipped_gateway.url}/docs", viewport=viewport) as page:
        page.route(
            "**/*",
            lambda route: (
                route.continue_() if route.request.url.startswith(f"{shipped_gateway.url}/") else route.abort()
            ),
        )
        page.reload()
        description = page.request.get(f"{shipped_gateway.url}/openapi.json").json()
        routes = [f"{method.upper()} {path}" for path, methods in description["paths"].items() for method in methods]
        page.get_by_role("heading", name="POST /v1/translate").wait_for()
        assert page.locator(".route h3").all_inner_texts()[: len(routes)] == routes
        page.locator("#post-v1-translate summary").first.click()
        row = page.locator("#post-v1-translate tr", has=page.get_by_role("rowheader", name="top_k", exact=True)).first
        assert "integer" in row.inner_text() and "most probable" in row.inner_text()
        assert page.evaluate(AUDIT) == []
        wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide[0] <= wide[1]
        policy = page.request.get(f"{shipped_gateway.url}/docs").headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy


def test_an_answer_that_streams_can_be_stopped(visit):
    with visit("stdlib-lm") as page:
        page.route("**/v1/completions", lambda route: None)  # it is long in coming
        assert button(page, "Stop").is_hidden()
        button(page, "Continue").click()
        button(page, "Stop").click()
        expect(button(page, "Stop")).to_be_hidden()
        assert page.locator("#failure").is_hidden()
        page.unroute("**/v1/completions")
        button(page, "Continue").click()
        page.get_by_text("Point at a token").wait_for()


def test_a_continuation_lights_what_each_token_read_before_it(visit):
    with visit("stdlib-lm") as page:
        field(page, "Temperature").fill("0")
        field(page, "Max tokens").fill("6")
        button(page, "Continue").click()
        page.get_by_text("Point at a token").wait_for()
        answer, prompt = (
            page.locator(".tokens").nth(0).locator(".token"),
            page.locator(".tokens").nth(1).locator(".token"),
        )
        assert answer.count() == 6 and prompt.count() >= 2
        lights = "all => all.map(one => parseFloat(one.style.getPropertyValue('--light')))"
        answer.nth(0).hover()
        assert max(prompt.evaluate_all(lights)) == 1 and answer.evaluate_all(lights) == [0] * 6
        answer.nth(5).hover()
        of_prompt, of_answer = prompt.evaluate_all(lights), answer.evaluate_all(lights)
        assert max(of_prompt + of_answer) == 1 and of_answer[5] == 0 and sum(of_answer) > 0
        assert "It read" in page.locator("#answer-body .stack .stack .note").inner_text()
        assert page.locator(".matrix .axis").all_inner_texts() == ["tokens before →", "answer tokens →"]
        assert page.locator(".matrix .legend .number").all_inner_texts() == ["0", "1"]
        assert page.evaluate(AUDIT) == []


def test_axes_of_maps_are_named(visit):
    with visit("digits-vit") as page:
        page.locator("input[type=file]").set_input_files(THREE)
        answer_label(page)
        named = ["patch columns 1 to 4 →", "patch rows 1 to 4 →"]
        assert page.locator("figure.maps .axis").all_inner_texts() == named
        page.get_by_role("radio", name="digits-captioner").check()
        page.locator("input[type=file]").set_input_files(PAIR)
        page.get_by_text("Point at a word").wait_for()
        page.locator(".words .token").nth(1).hover()
        assert "patch columns" in page.locator("figure.maps .axis").first.inner_text()
        assert page.locator("figure.maps .legend .number").count() == 2
        page.get_by_role("radio", name="dates-gru").check()
        tokens(page, 0, 10)
        assert page.locator(".matrix .axis").all_inner_texts() == ["source tokens →", "answer tokens →"]


def test_on_a_phone_the_answer_to_a_text_scrolls_into_view(visit):
    with visit("dates-gru", viewport=PHONE) as page:
        tokens(page, 0, 10)
        page.evaluate("scrollTo(0, 0)")
        button(page, "Translate").click()
        expect(page.locator("#answer-title")).to_be_in_viewport()
