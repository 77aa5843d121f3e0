"""The page's panels for vectors of texts and for conversations, in a real browser, before a real Triton."""

import json

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
        expect(page.locator(".prose [aria-live]")).to_have_attribute("aria-busy", "false")
        expect(page.locator(".prose [aria-live]")).not_to_be_empty()
        assert page.get_by_role("alert").count() == 0, "64 tokens would be more than the model keeps"


def test_an_error_of_a_text_or_a_message_stands_at_its_field(gateway, browser):
    with clean_page(browser, f"{gateway.url}/#{TEXT_ENCODER}", expected_errors=("400 (Bad Request)",)) as page:
        field(page, "Texts").fill("the cat\n" + "the cat sat on the mat " * 9)
        button(page, "Compare").click()
        expect(field(page, "Texts")).to_be_focused()
        page.get_by_role("alert").get_by_text("Shorten the text").wait_for()
        page.get_by_role("radio", name=LANGUAGE_MODEL).check()
        field(page, "Message").fill("the cat sat on the mat " * 9)
        button(page, "Send").click()
        expect(field(page, "Message")).to_be_focused()
        page.get_by_role("alert").get_by_text("Shorten the text").wait_for()
        assert field(page, "Message").input_value().startswith("the cat"), "it can be corrected"
        expect(page.locator(".chat li")).to_have_count(0)
        field(page, "Message").fill("the cat")
        button(page, "Send").click()
        expect(page.locator(".chat li")).to_have_count(2)
        expect(page.locator(".chat")).to_have_attribute("aria-busy", "false")
        assert page.get_by_role("alert").count() == 0


@pytest.mark.parametrize(
    ("kind", "title", "remedy"),
    [
        ("server_error", "Not available", "Wait a moment"),
        ("rate_limit_error", "Busy", "Wait a moment"),
        ("invalid_request_error", "This was not understood", "Correct the question"),
    ],
)
def test_a_failure_within_a_stream_says_whose_it_is(gateway, browser, kind, title, remedy):
    said = json.dumps({"error": {"message": "the worker is dead", "type": kind, "param": None, "code": None}})
    failing = {"content_type": "text/event-stream", "body": f"data: {said}\n\ndata: [DONE]\n\n"}
    with clean_page(browser, f"{gateway.url}/#{LANGUAGE_MODEL}") as page:
        page.route("**/v1/chat/completions", lambda route: route.fulfill(**failing))
        field(page, "Message").fill("the cat")
        button(page, "Send").click()
        failure = page.locator("#failure")
        failure.get_by_text(title).wait_for()
        failure.get_by_text("The worker is dead").wait_for()
        failure.get_by_text(remedy).wait_for()


def test_vectors_and_conversations_stay_while_another_model_is_asked(gateway, browser):
    with clean_page(browser, f"{gateway.url}/#{TEXT_ENCODER}") as page:
        button(page, "Compare").click()
        expect(page.locator(".cosines tbody tr")).to_have_count(3)
        cosines = page.locator(".cosines").inner_text()
        page.get_by_role("radio", name=LANGUAGE_MODEL).check()
        field(page, "Instructions").fill("be kind")
        field(page, "Message").fill("the cat")
        button(page, "Send").click()
        expect(page.locator(".chat li")).to_have_count(2)
        expect(page.locator(".chat")).to_have_attribute("aria-busy", "false")
        said = page.locator(".chat").inner_text()
        page.get_by_role("radio", name=TEXT_ENCODER).check()
        expect(page.locator(".cosines")).to_have_text(cosines, use_inner_text=True)
        page.reload()
        expect(page.locator(".cosines")).to_have_text(cosines, use_inner_text=True)
        page.get_by_role("radio", name=LANGUAGE_MODEL).check()
        expect(page.locator(".chat li")).to_have_count(2)
        assert page.locator(".chat").inner_text() == said and field(page, "Instructions").input_value() == "be kind"
        button(page, "New chat").click()
        page.get_by_role("radio", name=TEXT_ENCODER).check()
        page.get_by_role("radio", name=LANGUAGE_MODEL).check()
        expect(page.locator(".chat li")).to_have_count(0)
