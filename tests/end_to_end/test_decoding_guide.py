"""Every command of docs/guides/decoding.md, of the models that the tests serve."""

import pytest

from tests.end_to_end.documents import ROOT, blocks, commands, run_python, succeeded

GUIDE = (ROOT / "docs/guides/decoding.md").read_text()


@pytest.mark.parametrize("command", commands(GUIDE))
def test_a_command_of_the_guide_works(server, command):
    assert succeeded(f"{command} --server {server.grpc}")


def test_the_program_of_the_guide_works(server):
    (program,) = blocks(GUIDE, "python")
    said = run_python(program.replace("127.0.0.1:8001", server.grpc)).splitlines()
    assert [line.split()[1].isdigit() for line in said] == [True, True]
