"""What is known to be wrong with a version of the server."""

import re

import pytest

from attendant.errors import UserError
from serving.lint.check import check_version
from serving.lint.vulnerabilities import known_ones

MEMORY = {"CVE-2025-23319", "CVE-2025-23320", "CVE-2025-23334"}


def named(version):
    return set(re.findall(r"CVE-[0-9]+-[0-9]+", str([problem.finding.found for problem in check_version(version)])))


@pytest.mark.parametrize("version", ["2.51.0", "2.51", "24.10", "24.10-py3"])
def test_the_version_of_the_wheel_has_every_one_of_the_table(version):
    assert named(version) == {name for one in known_ones() for name in one.names} > MEMORY


@pytest.mark.parametrize(("before", "since"), [("2.59.0", "2.59.1"), ("25.06", "25.07")])
def test_memory_that_clients_could_write_ends_with_its_fix(before, since):
    assert named(before) - named(since) == MEMORY | {"CVE-2025-23310", "CVE-2025-23311"}


@pytest.mark.parametrize("version", ["2.67.0", "26.03", "2.71.0", "26.07-py3", "27.01"])
def test_a_server_with_every_fix_has_none(version):
    assert named(version) == set()


@pytest.mark.parametrize("version", ["", "latest", "2", "2.x", "-1.5", "2.51.0.0", "2.²"])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(UserError, match="version of tritonserver"):
        check_version(version or "none")


def test_every_row_says_since_when_it_is_mended_and_who_says_so():
    for one in known_ones():
        assert one.names and one.source and one.consequence
        assert re.fullmatch(r"2[.][0-9]+[.][0-9]+", one.server) and re.fullmatch(r"2[0-9][.][0-1][0-9]", one.container)
