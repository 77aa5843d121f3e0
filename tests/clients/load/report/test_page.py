"""The page is opened in a real browser: it draws, asks for nothing, complains of nothing, and fits a telephone."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

from attendant.errors import OutputError
from clients.load.analysis.search import measure_all
from clients.load.analysis.slo import parse_objectives
from clients.load.analysis.summary import summarize
from clients.load.record import RequestOutcome
from clients.load.report.page import run_page, sweep_page, write_page
from clients.load.run_file import read_run
from tests.clients.load.simulated import records, run_of

ROOT = Path(__file__).parents[4]
SHOWN = ROOT / "docs" / "images" / "load-report.png"
CHROMIUM = "/usr/bin/chromium"
QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
KEPT = parse_objectives("ttft_p95<20ms,itl_p95<5ms")


@pytest.fixture(scope="module")
def browser():
    if shutil.which(CHROMIUM) is None:
        pytest.skip("needs Chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield running
        running.close()


@pytest.fixture
def opened(browser):
    """A function that opens a file, and what the page asked and said meanwhile."""
    contexts, said = [], []

    def look(path, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: request.url.startswith("file:") or said.append(request.url))
        page.goto(path.as_uri())
        return page, said

    yield look
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")

    def written(name, run, objectives=()):
        path = folder / f"{name}.html"
        if not path.is_file():
            write_page(run_page(summarize(run, objectives)), path)
        return path

    return written


@pytest.fixture(scope="module")
def example():
    return read_run(ROOT / "docs" / "examples" / "load-run.json")


def test_a_run_of_streams_is_drawn(opened, page_of, example, tmp_path):
    page, said = opened(page_of("streams", example, KEPT))
    assert page.get_by_role("status").inner_text().startswith("✓ Valid")
    titles = ("Latency by percentile", "Time to first token", "Inter-token latency", "Every request", "What came back")
    for title in titles:
        drawn = page.locator("figure", has=page.get_by_role("heading", name=title, exact=True)).get_by_role("img")
        assert drawn.count() == 1, title
        assert drawn.locator("path, rect.bar").count() >= 1, title
        assert drawn.bounding_box()["height"] > 100, title
    page.set_viewport_size({"width": 1280, "height": 1660})
    page.screenshot(path=tmp_path / "report.png")
    assert said == []
    with Image.open(tmp_path / "report.png") as now, Image.open(SHOWN) as shown:
        assert now.size == shown.size, f"look at {tmp_path / 'report.png'}, and copy it to {SHOWN}"


def test_what_a_point_means_is_told_where_the_pointer_is(opened, page_of, example):
    page, said = opened(page_of("streams", example, KEPT))
    plot = page.locator("figure", has_text="Latency by percentile").get_by_role("img")
    plot.hover()
    told = page.locator(".tip:visible").inner_text()
    assert re.search(r"from the scheduled time\s+[\d.]+ %: [\d.]+ ms\nfrom the time it was sent\s+[\d.]+ %", told)
    drawn, box = plot.bounding_box(), page.locator(".tip:visible").bounding_box()
    assert drawn["y"] < box["y"] < drawn["y"] + drawn["height"] / 2
    assert box["x"] + box["width"] <= drawn["x"] + drawn["width"] + 20
    page.mouse.move(0, 0)
    assert page.locator(".tip:visible").count() == 0
    assert said == []


def test_an_invalid_run_says_so_and_why_before_anything_else(opened, page_of):
    found = records(rate=20, count=300)
    found[7] = replace(found[7], outcome=RequestOutcome.ERROR, error="<script>alert(1)</script>")
    found[9] = replace(found[9], outcome=RequestOutcome.WRONG, error="7 is not 3")
    page, said = opened(page_of("invalid", run_of(found, cpu_share=0.99)))
    banner = page.get_by_role("status")
    assert "Invalid: do not quote these figures" in banner.inner_text()
    assert "<script>alert(1)</script>" in banner.inner_text()
    assert "the generator was the limit" in banner.inner_text()
    assert banner.bounding_box()["y"] < page.locator(".figures").bounding_box()["y"]
    assert {"error", "wrong answer"} <= set(page.locator(".legend").last.inner_text().split("\n"))
    assert said == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_wide_and_narrow_places_in_light_and_dark(opened, page_of, example, width, scheme):
    page, said = opened(page_of("streams", example, KEPT), width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("svg.plot:visible").count() == 5
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    darkness = sum(map(int, re.findall(r"\d+", ground)[:3])) / 3
    assert (darkness < 60) == (scheme == "dark")
    widths = page.evaluate(
        "[...document.querySelectorAll('svg.plot')].map(p => [p.viewBox.baseVal.width, p.clientWidth])"
    )
    assert all(abs(drawn - shown) <= 1 for drawn, shown in widths)
    size = page.evaluate(
        "Math.min(...[...document.querySelectorAll('svg.plot text')].filter(t => t.getClientRects().length)"
        ".map(t => t.getBoundingClientRect().height))"
    )
    assert size >= 9.5
    assert said == []


def test_ink_stands_out_from_its_ground_in_light_and_dark():
    style = (ROOT / "clients" / "load" / "report" / "templates" / "page.css").read_text()
    for block in re.findall(r":root \{(.*?)\n\s*\}", style, re.DOTALL):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for ink in ("ink", "quiet", "good", "bad", "warn"):
            assert contrast(colours[ink], colours["card"]) >= 4.5, ink
        for line in ("s0", "s1", "s2", "s3"):
            assert contrast(colours[line], colours["card"]) >= 3, line
        assert contrast(colours["good"], colours["good-ground"]) >= 4.5
        assert contrast(colours["bad"], colours["bad-ground"]) >= 4.5


def contrast(one, other):
    """Contrast ratio as WCAG 2.2 defines it."""
    lights = sorted((light(one), light(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def light(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_page_is_small_and_needs_nothing_else(example):
    html = run_page(summarize(example, KEPT))
    assert len(html.encode()) < 400_000
    assert re.findall(r"(?:src|href)=[\"'](?!data:|#)", html) == []
    assert "http://" not in re.sub(r"http://127\.0\.0\.1", "", html.split("<script>")[0])


def test_a_run_of_thousands_of_requests_stays_small():
    assert len(run_page(summarize(run_of(records(rate=20, count=12_000, tokens=2)))).encode()) < 600_000


def test_a_run_without_requests_still_has_a_page(opened, page_of):
    empty = replace(run_of(records(count=50)), records=())
    page, said = opened(page_of("empty", empty))
    assert "no request was sent" in page.get_by_role("status").inner_text()
    assert said == []


@pytest.mark.parametrize(
    ("scale", "low", "high"),
    [
        *(("linear", low, high) for low, high in ((0.0, 1.0), (0.0, 437.0), (3.1, 3.9), (0.0, 2e-6))),
        *(("log", low, high) for low, high in ((1e-4, 2.0), (0.08, 0.2), (1e-6, 100.0), (0.5, 0.51))),
        *(("tail", 0.0, high) for high in (95.0, 99.0, 99.95)),
    ],
)
def test_ticks_are_round_and_inside_and_in_order(opened, page_of, example, scale, low, high):
    page, _ = opened(page_of("streams", example, KEPT))
    axis = {"scale": scale, "low": low, "high": high, "unit": "seconds"}
    found, places = page.evaluate("axis => [ticks(axis, 6), ticks(axis, 6).map(one => place(axis, one))]", axis)
    assert 2 <= len(found) <= 12 and found == sorted(found)
    assert all(low * 0.99 - 1e-12 <= tick <= high * 1.01 for tick in found)
    assert all(float(f"{tick:.3g}") == pytest.approx(tick) for tick in found)
    assert places == sorted(places) and len(set(places)) == len(places)


def test_values_lie_where_their_scale_says(opened, page_of, example):
    page, _ = opened(page_of("streams", example, KEPT))

    def places(scale, low, high, values):
        axis = {"scale": scale, "low": low, "high": high}
        return page.evaluate("([axis, values]) => values.map(one => place(axis, one))", [axis, values])

    assert places("log", 0.001, 1.0, [0.001, 0.01, 0.1, 1.0]) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert places("tail", 0.0, 99.9, [0.0, 90.0, 99.0, 99.9]) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    for scale in ("linear", "log", "tail"):
        assert places(scale, 1.0, 2.0, [-5.0, 1e9]) == [0.0, 1.0]


def test_a_name_and_an_error_of_markup_stay_text(opened, page_of):
    hostile = "</script><img src=x onerror=alert(1)>"
    found = [replace(one, workload=hostile) for one in records(rate=20, count=300)]
    found[7] = replace(found[7], outcome=RequestOutcome.ERROR, error=hostile)
    page, said = opened(page_of("hostile", replace(run_of(found, name=hostile), environment={hostile: hostile})))
    assert page.get_by_role("heading", level=1).inner_text() == hostile
    assert page.locator("img[src=x]").count() == 0 and page.locator("svg.plot").count() == 4
    limit = parse_objectives("latency_p95<1s")[0]
    page_of_limit = summarize(run_of(records(rate=20, count=300)), [replace(limit, text=hostile)])
    assert "<img" not in run_page(page_of_limit)
    assert said == []


def test_a_sweep_is_drawn_with_its_answer(opened, tmp_path):
    runs = {rate: run_of(records(rate=rate, count=300, tokens=5, seed=1)) for rate in (20.0, 40.0, 130.0)}
    found = measure_all(list(runs), lambda rate: summarize(runs[rate], parse_objectives("ttft_p95<60ms")))
    write_page(sweep_page(found, "rate"), tmp_path / "sweep.html")
    page, said = opened(tmp_path / "sweep.html")
    assert "highest load that keeps the objectives: 40 requests/s offered" in page.get_by_role("status").inner_text()
    panels = page.get_by_role("img")
    assert panels.count() == 3
    assert panels.first.locator("path.line").count() == 3
    assert panels.first.locator("path.cross").count() >= 1  # the overloaded level
    assert "ttft_p95<60ms" in panels.nth(1).text_content()
    assert said == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path, example):
    with pytest.raises(OutputError, match="choose another --html"):
        write_page(run_page(summarize(example)), tmp_path)
