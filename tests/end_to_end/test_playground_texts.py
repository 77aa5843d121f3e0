"""The page's panels for vectors of texts and for conversations, in a real browser, before a real Triton."""

import pytest
from playwright.sync_api import expect

from tests.conftest import LANGUAGE_MODEL, TEXT_ENCODER
from tests.end_to_end.browsers import browser as started_browser
from tests.end_to_end.browsers import clean_page
from tests.end_to_end.test_playground import AUDIT, PHONE, button, field


@pytest.fixture
def browser():
    with started_browser() as running:
        yield running


def test_texts_are_compared_and_a_conversation_is_held(gateway, browser):
    with clean_page(browser, f"{gateway.url}/#{TEXT_ENCODER}", viewport=PHONE) as page:
        button(page, "Compare").click()
        expect(page.locator(".cosines tbody tr")).to_have_count(3)
        assert page.evaluate(AUDIT) == []
        assert page.locator(".cosines td").nth(1).inner_text() == "1.000"
    with clean_page(browser, f"{gateway.url}/#{LANGUAGE_MODEL}", viewport=PHONE) as page:
        for text in ("the cat", "a dog"):
            field(page, "Message").fill(text)
            button(page, "Send").click()
            expect(page.locator(".chat li")).to_have_count(2)
            expect(page.locator(".chat")).to_have_attribute("aria-busy", "false")
            assert page.locator("#failure").inner_text() == ""
            assert page.locator(".chat li .prose").last.inner_text()
            assert page.evaluate(AUDIT) == []
            button(page, "New chat").click()
            expect(page.locator(".chat li")).to_have_count(0)
        button(page, "Continue a text").click()
        field(page, "Prompt").fill("the cat")
        button(page, "Continue").click()
        expect(page.locator("#answer-body .prose")).to_contain_text("the cat")
