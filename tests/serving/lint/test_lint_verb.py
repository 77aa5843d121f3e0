"""``attendant lint`` from the outside, and its page."""

import json
from pathlib import Path

import pytest

from attendant.errors import ArtefactError
from serving.lint.page import lint_page
from serving.lint.registry import COMMAND_RULES, FILE_RULES, MODEL_RULES
from serving.verbs import lint
from tests.serving.lint.broken_models import CASES
from tests.serving.lint.test_rules import repository


@pytest.mark.parametrize(
    ("name", "status", "counts"),
    [("queue-policy", 1, "1 errors, 0 warnings"), ("warm-up", 0, "0 errors, 1 warnings")],
)
def test_the_status_is_1_for_an_error_and_0_for_warnings(name, status, counts, tmp_path, capsys):
    assert lint(repository(tmp_path, CASES[name].broken_text, CASES[name].files)) == status
    shown = capsys.readouterr().out
    assert name in shown
    assert shown.splitlines()[-1].endswith(counts)


def test_a_clean_repository_is_one_line(tmp_path, capsys):
    assert lint(repository(tmp_path, CASES["queue-policy"].text, CASES["queue-policy"].files)) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("0 errors, 0 warnings")


def test_json_says_all_that_the_table_says(tmp_path, capsys):
    folder = repository(tmp_path, CASES["queue-policy"].broken_text, CASES["queue-policy"].files)
    assert lint(folder, command="tritonserver --model-control-mode=poll", json=True) == 1
    told = json.loads(capsys.readouterr().out)
    assert [one["subject"] for one in told] == ["m", *["command"] * 6]
    (rule,) = [rule for rule in MODEL_RULES if rule.name == "queue-policy"]
    assert told[0] == {
        "subject": "m",
        "severity": "error",
        "rule": "queue-policy",
        "where": "dynamic_batching.default_queue_policy",
        "found": "max_queue_size",
        "statement": rule.statement,
        "consequence": rule.consequence,
        "source": rule.source,
        "remedy": rule.remedy,
    }


@pytest.mark.parametrize("command", [None, "tritonserver --allow-http=false --allow-grpc=false --allow-metrics=false"])
def test_a_version_of_the_server_is_judged_with_a_command_or_without(command, tmp_path, capsys):
    folder = repository(tmp_path, CASES["queue-policy"].text, CASES["queue-policy"].files)
    assert lint(folder, command=command, server_version="26.03") == 0
    capsys.readouterr()
    assert lint(folder, command=command, server_version="2.51.0", json=True) == 1
    assert {one["rule"] for one in json.loads(capsys.readouterr().out)} == {"known-vulnerabilities"}


@pytest.mark.parametrize("place", ["absent", "."])
def test_a_place_without_models_is_refused(place, tmp_path):
    with pytest.raises(ArtefactError, match="no model repository at "):
        lint(tmp_path / place)


def test_the_page_is_what_the_registry_says():
    assert Path("docs/reference/lint-rules.md").read_text() == lint_page(), (
        "attendant lint --rules > docs/reference/lint-rules.md"
    )


def test_names_of_rules_are_different_and_every_rule_says_all():
    rules = [*FILE_RULES, *MODEL_RULES, *COMMAND_RULES]
    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        texts = (rule.statement, rule.consequence, rule.source, rule.remedy)
        assert all(text and "|" not in text and "\n" not in text for text in texts), rule.name
