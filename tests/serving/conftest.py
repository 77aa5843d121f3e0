import pytest


@pytest.fixture(scope="session")
def gru_artefact(exported):
    """A tiny translator of GRUs, exported."""
    return exported("gru-seq2seq-tiny")
