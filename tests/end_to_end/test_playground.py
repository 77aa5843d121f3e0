"""The playground in a real browser, before a real gateway and a real Triton."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from serving.gateway.middleware.keys import new_key
from tests.conftest import ROOT
from tests.end_to_end.browsers import browser as started_browser
from tests.end_to_end.browsers import clean_page
from tests.end_to_end.gateways import started

THREE = ROOT / "docs/examples/three.png"
PAIR = ROOT / "docs/examples/pair.png"
AUDIT = (Path(__file__).parent / "accessibility.js").read_text()
MODELS = ("digits-vit", "digits-swin", "digits-captioner", "dates-transformer", "dates-gru", "stdlib-lm")
STROKES_OF_3 = ((0.3, 0.2), (0.5, 0.12), (0.68, 0.3), (0.5, 0.48), (0.72, 0.68), (0.5, 0.88), (0.26, 0.78))
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser():
    with started_browser() as running:
        yield running


@pytest.fixture
def visit(browser, shipped_gateway):
    """Opens the page at a model; ``visit(model, **context)`` is a context manager."""
    return lambda model, **context: clean_page(browser, f"{shipped_gateway.url}/#{model}", **context)


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def field(page, name):
    return page.get_by_label(name, exact=True)


def draw(page, points):
    box = page.locator("canvas.board").bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def overlay(page):
    return page.locator("canvas.overlay").evaluate("canvas => canvas.toDataURL()")


def answer_label(page):
    page.locator(".verdict strong").wait_for()
    page.locator("figure.maps").wait_for()
    return page.locator(".verdict strong").inner_text()


def latency(page):
    page.locator("#latency div").first.wait_for()
    return page.locator("#latency div").evaluate_all(
        "rows => Object.fromEntries(rows.map(row => [row.children[0].textContent, row.children[1].textContent]))"
    )


def tokens(page, row, count=None):
    found = page.locator(".tokens").nth(row).locator(".token")
    if count is not None:
        found.nth(count - 1).wait_for()
        page.get_by_text("Point at a token").wait_for()
    return found


def lit(found):
    return found.evaluate_all("tokens => tokens.flatMap((one, at) => one.classList.contains('lit') ? [at] : [])")


def test_a_digit_drawn_by_mouse_is_known_and_its_map_follows_kind_layer_and_head(visit):
    with visit("digits-vit") as page:
        draw(page, STROKES_OF_3)
        assert answer_label(page) == "3"
        assert page.locator(".bars li").count() == 5
        assert latency(page).keys() == {"Answer", "Explanation"}
        seen = {overlay(page)}
        button(page, "Attention").click()
        field(page, "Head").select_option("head 1")
        seen.add(overlay(page))
        field(page, "Head").select_option("head 2")
        seen.add(overlay(page))
        field(page, "Layer").select_option("1")
        seen.add(overlay(page))
        button(page, "layer 2, head 3").click()
        assert field(page, "Layer").input_value() == "2" and field(page, "Head").input_value() == "3"
        seen.add(overlay(page))
        page.locator(".bars button").nth(1).click()
        page.get_by_text(f"Evidence for {page.locator('.bars .label').nth(1).inner_text()}.", exact=True).wait_for()
        seen.add(overlay(page))
        assert len(seen) == 6, "six different maps"


def test_windows_of_a_swin_are_shown_layer_by_layer(visit):
    with visit("digits-swin") as page:
        page.locator("input[type=file]").set_input_files(THREE)
        assert answer_label(page) == "3"
        last = overlay(page)
        field(page, "Layer").select_option("1")
        assert overlay(page) != last and field(page, "Head").count() == 0


def test_an_image_that_is_dropped_is_answered(visit):
    with visit("digits-vit") as page:
        drop_file(page, THREE.read_bytes(), "three.png")
        assert answer_label(page) == "3"
        drop_file(page, b"no image", "notes.txt")
        page.get_by_text("notes.txt is no image").wait_for()


def test_a_date_streams_and_its_tokens_light_what_they_read(visit):
    with visit("dates-transformer") as page:
        field(page, "Text").fill("7 may 2021")
        button(page, "Translate").click()
        expect(page.locator(".tokens").first).to_have_text("2021-05-07")
        target, source = tokens(page, 0, 10), tokens(page, 1)
        assert source.all_inner_texts() == ["7", "␣", "m", "a", "y", "␣", "2", "0", "2", "1"]
        target.nth(9).hover()
        assert lit(source) == [0], "the day"
        assert "“7”" in page.locator(".note").inner_text()
        target.nth(3).hover()
        assert lit(source) == [9], "the last digit of the year"
        source.nth(9).hover()
        assert 3 in lit(target)
        page.locator("h1").hover()
        assert lit(source) == lit(target) == []
        assert latency(page).keys() == {"First token", "Tokens", "Speed", "Total"} and latency(page)["Tokens"] == "10"


def test_a_matrix_of_the_alignment_points_too(visit):
    with visit("dates-gru") as page:
        target, source = tokens(page, 0, 10), tokens(page, 1)
        matrix = page.locator(".matrix canvas")
        matrix.hover(position={"x": 26 + 16.5 * 22, "y": 26 + 3.5 * 22})
        assert "chosen" in target.nth(3).get_attribute("class") and lit(source) == [16]


def test_each_word_of_a_caption_shows_where_it_looked(visit):
    with visit("digits-captioner") as page:
        page.locator("input[type=file]").set_input_files(PAIR)
        words = page.locator(".words .token")
        words.nth(5).wait_for()
        page.get_by_text("Point at a word").wait_for()
        assert " ".join(words.all_inner_texts()) == "a three left of an eight"
        plain = overlay(page)
        words.nth(1).hover()
        page.get_by_text("Where “three” looked.").wait_for()
        three = overlay(page)
        words.nth(5).hover()
        page.get_by_text("Where “eight” looked.").wait_for()
        assert len({plain, three, overlay(page)}) == 3


def test_text_is_continued_as_the_controls_say(visit):
    with visit("stdlib-lm") as page:
        field(page, "Temperature").fill("0")
        field(page, "Max tokens").fill("5")
        assert written(page) == written(page)
        assert latency(page)["Tokens"] == "5"
        page.get_by_text("cut at the longest answer").wait_for()
        field(page, "Temperature").fill("2")
        field(page, "Max tokens").fill("24")
        field(page, "Seed").fill("7")
        seventh = written(page)
        assert written(page) == seventh
        field(page, "Seed").fill("8")
        assert written(page) != seventh
        field(page, "Top p").fill("3")
        button(page, "Continue").click()
        assert field(page, "Top p").evaluate("input => input === document.activeElement"), "it is asked to be corrected"


def test_beams_come_without_an_alignment(visit):
    with visit("dates-transformer") as page:
        tokens(page, 0, 10)
        page.get_by_text("Sampling").click()
        field(page, "Beams").fill("3")
        button(page, "Translate").click()
        expect(page.locator(".matrix")).to_be_hidden()
        expect(page.locator(".tokens").first).to_have_text("1997-03-03")


def test_a_mistake_is_told_with_what_to_do(visit):
    with visit("dates-gru", expected_errors=("400 (Bad Request)",)) as page:
        field(page, "Text").fill("§")
        button(page, "Translate").click()
        alert = page.get_by_role("alert")
        alert.get_by_text("What to do").wait_for()
        assert "§" in alert.inner_text() and "Remove or replace those characters" in alert.inner_text()
        field(page, "Text").fill("3rd of march 1997")
        button(page, "Translate").click()
        tokens(page, 0, 10)
        assert alert.is_hidden()


def test_a_gateway_with_keys_asks_for_one(browser, shipped_server, tmp_path):
    secret = new_key(tmp_path / "keys.json", "visitor", "", "")
    with (
        started(shipped_server.grpc, probe_s=60.0, keys=tmp_path / "keys.json") as gateway,
        clean_page(browser, gateway.url, expected_errors=("401 (Unauthorized)",)) as page,
    ):
        field(page, "API key").fill("guessed")
        assert page.get_by_role("link", name="OpenAPI description").is_hidden()  # it would answer 401
        button(page, "Use this key").click()
        page.get_by_text("not among its keys").wait_for()
        field(page, "API key").fill(secret)
        button(page, "Use this key").click()
        page.get_by_text("6 models ready").wait_for()
        assert field(page, "API key").is_hidden()
        assert page.get_by_role("link", name="OpenAPI description").is_hidden()


def test_everything_can_be_done_by_keyboard_alone(visit):
    with visit("digits-vit") as page:
        page.get_by_role("radio", name="digits-vit").wait_for()
        tab_to(page, "[name=model]")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.value") == "digits-swin"
        tab_to(page, ".board")
        for key in [*["ArrowUp"] * 8, "Space", *["ArrowDown"] * 16, "Space"]:
            page.keyboard.press(key)
        assert answer_label(page) == "1"
        page.get_by_role("radio", name="digits-swin").focus()
        while page.evaluate("document.activeElement.value") != "dates-transformer":
            page.keyboard.press("ArrowRight")
        tab_to(page, "textarea")
        page.keyboard.press("Enter")
        target, source = tokens(page, 0, 10), tokens(page, 1)
        tab_to(page, ".token")
        assert len(lit(source)) >= 1
        page.keyboard.press("End")
        assert target.nth(9).evaluate("one => one === document.activeElement") and lit(source) == [0]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_fits_a_phone_and_can_be_read(visit, scheme):
    with visit("digits-vit", viewport=PHONE, has_touch=True, color_scheme=scheme, reduced_motion="reduce") as page:
        for name in MODELS:
            page.get_by_role("radio", name=name).check()
            fill_view(page, name)
            wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            assert wide[0] <= wide[1], f"{name} scrolls sideways: {wide}"
            assert page.evaluate(AUDIT) == [], name
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in ground[4:-1].split(",")) < 120) is (scheme == "dark")


def test_nothing_moves_for_who_wants_that(visit):
    with visit("digits-vit", reduced_motion="reduce") as page:
        draw(page, STROKES_OF_3)
        answer_label(page)
        moves = "one => parseFloat(getComputedStyle(one).transitionDuration) > 0"
        assert page.evaluate(f"[...document.querySelectorAll('*')].filter({moves}).length") == 0


def test_the_page_may_load_nothing_from_elsewhere(visit, shipped_gateway):
    with visit("digits-vit") as page:
        policy = page.request.get(shipped_gateway.url).headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def written(page):
    button(page, "Continue").click()
    page.locator(".prose [aria-busy=false]").wait_for(state="attached")
    return page.locator(".prose").inner_text()


def tab_to(page, selector):
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached by Tab")


def fill_view(page, name):
    if name.startswith("digits"):
        page.locator("input[type=file]").set_input_files(PAIR if "captioner" in name else THREE)
        page.locator("canvas.overlay").wait_for()
        page.locator("#latency").wait_for()
    elif name.startswith("dates"):
        tokens(page, 0, 10).nth(0).hover()
    else:
        written(page)


def drop_file(page, data, name):
    transfer = page.evaluate_handle(
        """([bytes, name]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], name));
            return transfer;
        }""",
        [list(data), name],
    )
    page.dispatch_event(".board-frame", "drop", {"dataTransfer": transfer})


def test_only_certainty_is_a_hundred_per_cent(visit):
    with visit("digits-vit") as page:
        shares = [1, 0.9999, 0.9994, 0.995, 0.99, 0.984, 0.5, 0.1, 0.0994, 0.0004, 0]
        texts = page.evaluate("async (shares) => shares.map((await import('/playground/dom.js')).percent)", shares)
    assert texts == [
        *("100 %", "> 99.9 %", "99.9 %", "99.5 %", "99.0 %", "98 %", "50 %", "10 %", "9.9 %", "< 0.1 %", "0.0 %")
    ]


def test_a_map_has_a_legend_of_its_own_numbers_and_its_grid(visit):
    with visit("digits-vit") as page:
        page.locator("input[type=file]").set_input_files(THREE)
        answer_label(page)
        legend = page.locator("figure.maps .legend")
        least, most = map(float, legend.locator(".number").all_inner_texts())
        assert least < most
        assert "share of the answer, 4 × 4 places" in legend.inner_text()
        button(page, "Attention").click()
        page.get_by_text("attention, 4 × 4 places").wait_for()


def test_the_first_visit_shows_an_answered_sample_and_later_ones_an_empty_board(browser, shipped_gateway):
    with clean_page(browser, shipped_gateway.url) as page:
        assert answer_label(page).isdigit()
    with clean_page(browser, f"{shipped_gateway.url}/#digits-vit") as page:
        page.get_by_text("Draw something").wait_for()
        page.wait_for_timeout(600)
        assert page.locator(".verdict strong").count() == 0


def test_on_a_phone_the_answer_scrolls_into_view(visit):
    with visit("digits-vit", viewport=PHONE) as page:
        page.locator("input[type=file]").set_input_files(THREE)
        answer_label(page)
        expect(page.locator("#answer-title")).to_be_in_viewport()
