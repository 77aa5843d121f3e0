"""Numbers that a browser cannot hold are refused by the page, and not changed."""

import pytest

from tests.end_to_end.browsers import browser as started_browser
from tests.end_to_end.browsers import clean_page

ASK = """async ({ dtype, text }) => {
    const { predictView } = await import("/playground/predict.js");
    const card = { id: "mine", task: "predict", inputs: [{ name: "x", dtype, shape: [2] }], example: {} };
    const [question, answer] = [document.createElement("div"), document.createElement("div")];
    document.getElementById("question-body").replaceChildren(question);
    document.getElementById("answer-body").replaceChildren(answer);
    predictView(card, question, answer, new AbortController().signal);
    question.querySelector("textarea").value = text;
    question.querySelector("form").requestSubmit();
}"""


@pytest.fixture(scope="module")
def page(shipped_gateway):
    with started_browser() as browser, clean_page(browser, f"{shipped_gateway.url}/#dates-gru") as opened:
        opened.locator(".tokens").first.wait_for()
        opened.route("**/v1/predict*", lambda route: route.fulfill(json={"outputs": {"y": [1]}, "labels": {}}))
        yield opened


@pytest.mark.parametrize(
    ("dtype", "text", "is_asked"),
    [
        ("int64", "[1, 9007199254740993]", False),
        ("uint64", "[18446744073709551615, 1]", False),
        ("int64", "[1, 9007199254740991]", True),
        ("float64", "[1e300, 9007199254740993]", True),
    ],
)
def test_an_integer_beyond_a_browser_s_is_refused(page, dtype, text, is_asked):
    page.evaluate(ASK, {"dtype": dtype, "text": text})
    if is_asked:
        page.locator("#answer-body pre").wait_for()
    else:
        page.locator(".failure").get_by_text("as browsers have them").wait_for()
