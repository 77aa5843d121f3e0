"""What is known to be wrong with the packages that we install, by pip-audit; and whether it knew anything at all.

``python -m tests.audit`` looks up each version of constraints.txt. Offline, or behind an index that knows of no
vulnerabilities, pip-audit fails, or skips every package and says that all is well: neither is taken for an answer here.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VERSIONS = Path(__file__).parent.parent / "constraints.txt"
FINE, VULNERABLE, NO_DATA = 0, 1, 2
TIMEOUT_S = 600


@dataclass(frozen=True)
class Verdict:
    """What an audit found.

    Attributes:
        status: to end with.
        lines: to print.
    """

    status: int
    lines: tuple[str, ...]


def judge(output: str, errors: str) -> Verdict:
    """Read what pip-audit wrote: JSON, or nothing and a reason."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = (errors.strip().splitlines() or ["it wrote nothing"])[-1]
        return Verdict(NO_DATA, (f"not audited: pip-audit has no data: {reason}",))
    known = [one for one in packages if "skip_reason" not in one]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    if not known:
        reason = packages[0]["skip_reason"] if packages else "no packages"
        return Verdict(NO_DATA, (f"not audited: pip-audit has no data on any of {len(packages)} packages: {reason}",))
    found = tuple(
        f"{one['name']} {one['version']}: {fault['id']}, fixed in {', '.join(fault['fix_versions']) or 'no release'}"
        for one in known
        for fault in one["vulns"]
    )
    lacks = (f"no data on {len(skipped)}: {', '.join(skipped)}",) if skipped else ()
    return Verdict(VULNERABLE if found else FINE, (*found, f"audited {len(known)}; {len(found)} known faults", *lacks))


def audit() -> Verdict:
    """Run pip-audit over the versions that the tests run with."""
    words = [
        *(sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"),
        *("--no-deps", "--disable-pip", "--requirement", str(VERSIONS)),
    ]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return judge("", f"no answer within {TIMEOUT_S} s")
    return judge(ran.stdout, ran.stderr)


if __name__ == "__main__":
    verdict = audit()
    sys.stdout.write("".join(f"{line}\n" for line in verdict.lines))
    sys.exit(verdict.status)
