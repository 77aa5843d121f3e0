import pytest

from export.stage import export_onnx


@pytest.fixture(scope="session")
def gru_artefact(tmp_path_factory):
    """A tiny translator of GRUs, exported."""
    out = tmp_path_factory.mktemp("artefacts") / "gru-seq2seq-tiny"
    export_onnx(out.name, out)
    return out
