"""Takes the pictures of docs/guides/playground.md of a gateway that serves the shipped models.

python -m tests.end_to_end.playground_pictures http://127.0.0.1:8080
"""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect

from tests.end_to_end.browsers import browser, clean_page

OUT = Path("docs/images")
DESK, PHONE = {"width": 1180, "height": 800}, {"width": 360, "height": 780}


def sample(page, *digits):
    """Let the button draw these digits."""
    page.evaluate("digits => { let at = 0; Math.random = () => (digits[at++] + 0.5) / 10; }", digits)
    page.get_by_role("button", name="Sample").click()


def digit(page):
    """A drawn digit with the attention of one head over it."""
    sample(page, 3)
    page.locator(".verdict strong").wait_for()
    page.get_by_role("button", name="Attention").click()
    page.get_by_role("button", name="layer 2, head 3").click()


def evidence(page):
    """What speaks for the label."""
    sample(page, 5)
    page.locator(".verdict strong").wait_for()
    page.get_by_role("button", name="Evidence").click()
    page.get_by_text("Evidence for 5.", exact=True).wait_for()


def date(page):
    """A date with one token pointed at."""
    page.get_by_label("Text", exact=True).fill("sunday, 7 may 2021")
    page.get_by_role("button", name="Translate").click()
    expect(page.locator(".tokens").first).to_have_text("2021-05-07")
    page.locator(".tokens").first.locator(".token").nth(9).hover()


def caption(page):
    """A caption with one word pointed at."""
    sample(page, 3, 8)
    page.locator(".words .token").nth(5).wait_for()
    page.locator(".word-maps figure").nth(5).wait_for()
    page.locator(".words .token").nth(1).hover()


def text(page):
    """A prompt that is continued."""
    page.get_by_label("Temperature", exact=True).fill("0")
    page.get_by_role("button", name="Continue").click()
    page.locator(".prose [aria-busy=false]").wait_for(state="attached")


def mistake(page):
    """A text outside of a model's alphabet."""
    page.get_by_label("Text", exact=True).fill("3rd of März 1997")
    page.get_by_role("button", name="Translate").click()
    page.get_by_role("alert").get_by_text("What to do").wait_for()


PICTURES = {
    "digit": ("digits-vit", digit, DESK, "light"),
    "evidence": ("digits-swin", evidence, DESK, "dark"),
    "date": ("dates-transformer", date, DESK, "light"),
    "caption": ("digits-captioner", caption, DESK, "dark"),
    "text": ("stdlib-lm", text, DESK, "light"),
    "mistake": ("dates-gru", mistake, DESK, "light"),
    "phone": ("digits-captioner", caption, PHONE, "light"),
    "phone-dark": ("dates-gru", date, PHONE, "dark"),
}


def take(url, names):
    """Write the pictures of these names."""
    with browser() as running:
        for name in names:
            model, act, viewport, scheme = PICTURES[name]
            context = {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce"}
            known = ("400 (Bad Request)",) if name == "mistake" else ()
            with clean_page(running, f"{url}/#{model}", expected_errors=known, **context) as page:
                page.locator("#question-body *").first.wait_for()
                act(page)
                page.wait_for_timeout(300)
                taken = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
            file = OUT / f"playground-{name}.png"
            taken.quantize(palette=taken.quantize(), dither=Image.Dither.FLOYDSTEINBERG).save(file, optimize=True)
            sys.stdout.write(f"{file}: {file.stat().st_size} bytes\n")


if __name__ == "__main__":
    take(sys.argv[1], sys.argv[2:] or PICTURES)
