"""What the page forgets with a key: another may be another person's."""

from playwright.sync_api import expect

from serving.gateway.middleware.keys import new_key, revoke_key
from tests.end_to_end.browsers import browser as started_browser
from tests.end_to_end.browsers import clean_page
from tests.end_to_end.gateways import started
from tests.end_to_end.test_playground import button, field


def test_another_key_forgets_what_is_shown_too(shipped_server, tmp_path):
    keys = tmp_path / "keys.json"
    first, second = (new_key(keys, name, "", "") for name in ("one", "another"))
    errors = ("401 (Unauthorized)", "Failed to load resource", "net::ERR_FAILED")
    with (
        started_browser() as browser,
        started(shipped_server.grpc, probe_s=60.0, keys=keys) as gateway,
        clean_page(browser, f"{gateway.url}/#dates-gru", expected_errors=errors) as page,
    ):

        def use(secret):
            field(page, "API key").fill(secret)
            button(page, "Use this key").click()

        use(first)
        expect(page.locator(".tokens").first).to_have_text("1997-03-03")
        revoke_key(keys, "one")
        button(page, "Translate").click()
        page.get_by_text("A key is needed").wait_for()
        page.route("**/v1/models", lambda route: route.abort())
        use(second)
        page.get_by_text("not connected").wait_for()
        expect(page.locator("#workspace")).to_be_hidden()
        assert not page.locator(".tokens").count() and "1997" not in page.content()
        assert not [one for one in page.evaluate("Object.keys(sessionStorage)") if one.startswith("attendant-answer")]
        page.unroute("**/v1/models")
        button(page, "Try again").click()
        page.get_by_text("6 models ready").wait_for()
