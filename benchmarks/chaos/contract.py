"""Writes the table of promises in docs/failure-contract.md from the scenarios."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping

from benchmarks.chaos.scenario import Expectation, Scenario, read_scenarios
from benchmarks.harness.machine import ROOT

PAGE = ROOT / "docs" / "failure-contract.md"
BEGIN, END = "<!-- promises: begin -->", "<!-- promises: end -->"
HEADS = ("fault", "what happens", "requests in flight", "others", "back within", "the server")


def promises(scenarios: Mapping[str, Scenario]) -> Iterator[str]:
    """A row for each scenario."""
    yield "| " + " | ".join(HEADS) + " |"
    yield "|---" * len(HEADS) + "|"
    for name, one in scenarios.items():
        expect = one.expect
        others = "all answered" if any(one.targets) and expect.others_failed == 0 else ""
        back = "" if expect.back_s is None else f"{expect.back_s:g} s"
        yield "| " + " | ".join((f"`{name}`", one.summary, _in_flight(expect), others, back, _server(expect))) + " |"


def _in_flight(expect: Expectation) -> str:
    if expect.missing:
        return "an error for the model that is missing"
    if expect.complete:
        return "answered as a whole"
    if expect.target_failed == 0:
        return "answered"
    if expect.may_cut:
        return "may break off"
    return "answered, or an error" + ("" if expect.ended_s is None else f" within {expect.ended_s:g} s")


def _server(expect: Expectation) -> str:
    if expect.exit_status is not None:
        within = "" if expect.exit_s is None else f" within {expect.exit_s:g} s"
        return f"ends with {expect.exit_status}{within}, and nothing is left"
    return "stays, every process of it" if expect.same_processes else "stays"


def with_promises(page: str, scenarios: Mapping[str, Scenario]) -> str:
    """A page whose table is that of the scenarios."""
    table = "\n".join((BEGIN, "", *promises(scenarios), "", END))
    return re.sub(f"{BEGIN}.*{END}", lambda _: table, page, flags=re.DOTALL)


def main() -> int:
    argparse.ArgumentParser(prog="python -m benchmarks.chaos.contract", description=__doc__).parse_args()
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_promises(page, read_scenarios()), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {len(read_scenarios())} promises\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
