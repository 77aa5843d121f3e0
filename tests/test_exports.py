import shutil

import pytest

from tests.exports import SharedExports


def test_an_artefact_is_made_once_and_one_that_a_test_has_changed_is_told(tiny_classifier, tmp_path, monkeypatch):
    monkeypatch.setattr("export.artefact.onnx_artefact.run_each", None)
    shutil.copytree(tiny_classifier.parent, tmp_path / tiny_classifier.parent.name)
    shared = SharedExports(tmp_path)
    artefact = shared("vit-tiny")
    assert shared("vit-tiny") == artefact
    (artefact / "model.onnx").write_bytes(b"damaged")
    with pytest.raises(AssertionError, match="changed a file of the shared artefact"):
        shared("vit-tiny")
