"""The metrics that Triton and the gateway show are those of docs/reference/metrics.md: names, types and labels."""

import re

import pytest

from tests.end_to_end.asking import page
from tests.end_to_end.documents import ROOT

SERIES = re.compile(r"^(attendant_\w+)\{([^}]*)\}", re.MULTILINE)
ENGINE, GATEWAY = (ROOT / "docs/reference/metrics.md").read_text().split("\n## Gateway\n")


def listed(text):
    """Series → labels, as the page's tables have them; a histogram has three series."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", text, re.MULTILINE)
    found = {}
    for name, kind, labels in rows:
        given = frozenset(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            found |= {f"{name}_bucket": given | {"le"}, f"{name}_sum": given, f"{name}_count": given}
        else:
            found[name] = given
    return found


def shown(text):
    return {name: frozenset(re.findall(r'(\w+)="', labels)) for name, labels in SERIES.findall(text)}


def test_the_engines_metrics_are_those_of_the_page(server):
    found = shown(page(f"http://{server.metrics}/metrics"))
    found = {name: labels - {"version"} for name, labels in found.items()}
    assert found == listed(ENGINE)


def test_the_gateways_metrics_are_among_those_of_the_page(gateway):
    page(f"{gateway.url}/v1/models")
    found = shown(page(f"{gateway.url}/metrics"))
    found = {name: labels for name, labels in found.items() if not name.endswith("_created")}
    assert found and {name: labels for name, labels in found.items() if listed(GATEWAY).get(name) != labels} == {}


@pytest.mark.planted
def test_a_metric_that_the_page_lacks_would_be_found():
    text = 'attendant_new_total{model="a"} 1\nattendant_num_requests_running{model="a",device="b"} 0\n'
    assert {name for name, labels in shown(text).items() if listed(ENGINE).get(name) != labels} == {
        "attendant_new_total",
        "attendant_num_requests_running",
    }
