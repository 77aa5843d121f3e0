"""Alerts and dashboard are read by their own tools and name what is counted; each alert is proved and explained."""

import json
import re
import subprocess

import promql_parser
import pytest
import yaml

from commands.reference import metrics_page
from tests.prometheus import DEPLOYED, ROOT, program

GUIDE = (ROOT / "docs/guides/monitoring.md").read_text()
DASHBOARD = json.loads((ROOT / "deploy/grafana/attendant.json").read_text())
GROUPS = yaml.safe_load((DEPLOYED / "alerts.yml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
COUNTED = set(re.findall(r"^\| `(attendant_\w+)` \|", metrics_page(), re.MULTILINE))


def expressions():
    """Every expression of the dashboard, as Grafana sends it where all models are chosen, with its panel's title."""
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    return [(panel["title"], in_full(target["expr"])) for panel in panels for target in panel["targets"]]


def in_full(expression):
    return expression.replace("$model", ".*").replace("$__rate_interval", "1m")


def names_in(expression):
    return set(re.findall(r"\b(?:attendant[_:]|nv_)[\w:]+", expression))


def unknown(expression):
    """The names of ours that nothing counts or records; Triton's are looked for where one runs."""
    series = {f"{name}{part}" for name in COUNTED for part in ("", "_bucket", "_sum", "_count")}
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    return {name for name in names_in(expression) if name.startswith("attendant")} - series - recorded


@pytest.mark.parametrize("words", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")])
def test_promtool_reads_the_configuration_and_proves_the_alerts(words):
    ended = subprocess.run([program("promtool"), *words], cwd=DEPLOYED, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.planted
def test_an_alert_that_would_not_fire_is_found(tmp_path):
    for name in ("alerts.yml", "alerts_test.yml"):
        text = (DEPLOYED / name).read_text().replace("attendant_gateway_keys_current == 0", "attendant_keys == 0")
        (tmp_path / name).write_text(text)
    words = [program("promtool"), "test", "rules", "alerts_test.yml"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode != 0 and "AttendantKeysStale" in ended.stdout + ended.stderr


def test_each_alert_is_fired_and_kept_silent_by_a_test_and_has_a_page_that_says_what_to_do():
    tested = yaml.safe_load((DEPLOYED / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in tested for case in test.get("alert_rule_test", ())]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == {rule["alert"] for rule in ALERTS}
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("page", "ticket") and rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/guides/monitoring.md#{rule['alert'].lower()}"
        section = GUIDE.partition(f"\n### {rule['alert']}\n")[2].partition("\n### ")[0]
        assert len(section.split()) > 30, f"what to do about {rule['alert']}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_what_is_counted(rule):
    promql_parser.parse(rule["expr"])
    assert names_in(rule["expr"]) or rule["expr"].startswith("up")
    assert not unknown(rule["expr"])


@pytest.mark.parametrize(("title", "expression"), expressions())
def test_a_panel_asks_for_what_is_counted_or_recorded(title, expression):
    promql_parser.parse(expression)
    assert not unknown(expression), title


@pytest.mark.planted
def test_a_metric_that_nothing_counts_is_found():
    asked = "rate(attendant_gateway_requests_total[5m]) / rate(attendant_gateway_asked_total[5m])"
    assert unknown(asked) == {"attendant_gateway_asked_total"}


def test_every_panel_says_what_it_shows_and_none_lies_on_another():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells and place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or (panel["description"] and panel["fieldConfig"]["defaults"]["unit"])
