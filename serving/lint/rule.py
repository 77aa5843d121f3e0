"""One trap: what must hold, what happens where it does not, who says so, and what to do.

What a server refuses at its start, with a message that names the field, is no rule: the server finds it better.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Severity = Literal["error", "warning"]
Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place where a rule does not hold.

    Attributes:
        where: the field, file or flag.
        found: what is there.
    """

    where: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Subject]):
    """A statement about what Triton is given.

    Attributes:
        name: how reports call it.
        severity: ``error`` where a model does not load, answers wrongly or stalls; ``warning`` where it may.
        statement: what must hold.
        consequence: what happens where it does not.
        source: who says so, or how it was measured.
        remedy: what to do.
        find: yields every place where it does not hold.
    """

    name: str
    severity: Severity
    statement: str
    consequence: str
    source: str
    remedy: str
    find: Callable[[Subject], Iterable[Finding]]


def rule(
    *, severity: Severity, statement: str, consequence: str, source: str, remedy: str
) -> Callable[[Callable[[Subject], Iterable[Finding]]], Rule[Subject]]:
    """Make a rule of the function below: it finds where the rule is broken, and its name is the rule's, with dashes."""

    def create_rule(find: Callable[[Subject], Iterable[Finding]]) -> Rule[Subject]:
        return Rule(
            name=find.__name__.replace("_", "-"),
            severity=severity,
            statement=statement,
            consequence=consequence,
            source=source,
            remedy=remedy,
            find=find,
        )

    return create_rule
