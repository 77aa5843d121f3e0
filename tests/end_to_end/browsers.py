"""Debian's Chromium in a test: pages that must say nothing to the console and ask nobody but their own server."""

import shutil
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WAIT_MS = 60_000


@contextmanager
def browser():
    """One that several pages share."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield running
        running.close()


@contextmanager
def clean_page(browser, url, expected_errors=(), **context):
    """A page at an address; what it said and whom it asked is checked at the end."""
    with browser.new_context(**context) as opened:
        page = opened.new_page()
        page.set_default_timeout(WAIT_MS)
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        yield page
        origin = "/".join(url.split("/")[:3])
        unexpected = [line for line in said if not any(known in line for known in expected_errors)]
        assert unexpected == [], unexpected
        assert [one for one in asked if not one.startswith((f"{origin}/", "data:", "blob:"))] == []
