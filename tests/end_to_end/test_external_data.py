"""Weights in a file of their own behind a real Triton."""

import os

import pytest

from serving.triton.repository.layout import write_repository
from tests.end_to_end.test_up import READY_S, up
from tests.export.test_external_data import DATA_NAME, with_external_data


@pytest.mark.planted
def test_a_truncated_file_of_weights_keeps_the_server_from_being_ready(tiny_classifier, tmp_path):
    artefact = with_external_data(tiny_classifier, tmp_path / "artefact")
    write_repository([artefact], tmp_path / "repository")
    os.truncate(tmp_path / "repository/vit-tiny/1" / DATA_NAME, 1000)
    with up(repository=tmp_path / "repository") as (process, _):
        _, errors = process.communicate(timeout=READY_S)
    assert process.returncode == 1
    assert f"{DATA_NAME} with SHA-256" in errors and "as its manifest says" in errors
    assert errors.count("\n") == 1
