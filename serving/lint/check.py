"""Check every model of a repository, and a server's command line, by every rule."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from serving.lint.command import Command
from serving.lint.model import read_models
from serving.lint.registry import COMMAND_RULES, FILE_RULES, MODEL_RULES
from serving.lint.rule import Finding, Rule, Severity
from serving.lint.vulnerabilities import known_vulnerabilities

MOST_FINDINGS = 1000
"""Of one rule in one model: nobody reads more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A rule that does not hold somewhere.

    Attributes:
        subject: the model's folder, or ``command``.
        rule: what does not hold.
        finding: where.
    """

    subject: str
    rule: Rule[Any]
    finding: Finding

    @property
    def severity(self) -> Severity:
        return self.rule.severity

    def to_json(self) -> dict[str, str]:
        """The problem as plain JSON values."""
        names = ("statement", "consequence", "source", "remedy")
        return {
            "subject": self.subject,
            "severity": self.rule.severity,
            "rule": self.rule.name,
            "where": self.finding.where,
            "found": self.finding.found,
            **{name: getattr(self.rule, name) for name in names},
        }


def check_repository(repository: Path) -> list[Problem]:
    """What is wrong with the models of a repository, by model and rule.

    Raises:
        ArtefactError: the repository is missing or holds no folder.
    """
    return [
        problem
        for model in read_models(repository)
        for problem in _check(model.folder.name, model, FILE_RULES if model.unread else MODEL_RULES)
    ]


def check_command(command: Command) -> list[Problem]:
    """What is wrong with a server's command line."""
    return _check("command", command, COMMAND_RULES)


def check_version(version: str) -> list[Problem]:
    """What is known to be wrong with a version of the server.

    Raises:
        UserError: it is no version.
    """
    return _check("command", Command(flags={}, version=version), (known_vulnerabilities,))


def _check(subject: str, checked: Any, rules: Iterable[Rule[Any]]) -> list[Problem]:
    return [Problem(subject=subject, rule=rule, finding=finding) for rule in rules for finding in _first(rule, checked)]


def _first(rule: Rule[Any], checked: Any) -> list[Finding]:
    found = list(islice(rule.find(checked), MOST_FINDINGS + 1))
    if len(found) > MOST_FINDINGS:
        found[-1] = Finding(where="", found=f"and more than these {MOST_FINDINGS}")
    return found
