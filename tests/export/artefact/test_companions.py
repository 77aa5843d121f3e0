"""What stands beside the weights is tried before it becomes part of an artefact."""

import shutil

import pytest

from attendant.errors import ArtefactError
from attendant.tokenizer import TOKENIZER_NAME
from export.artefact.stage import export_onnx, export_torch
from models.checkpoints.place import PRETRAINED


@pytest.mark.planted
@pytest.mark.parametrize("export", [export_onnx, export_torch])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_tokenizer_that_was_cut_short_is_refused_before_anything_is_written(export, share, tmp_path):
    folder = tmp_path / "checkpoint"
    shutil.copytree(PRETRAINED / "dates-gru", folder)
    text = (folder / TOKENIZER_NAME).read_text()
    (folder / TOKENIZER_NAME).write_text(text[: int(share * len(text))])
    with pytest.raises(ArtefactError, match="a readable tokenizer"):
        export(str(folder), tmp_path / "artefact")
    assert not (tmp_path / "artefact").exists()


def test_marians_files_are_tried_as_well(tmp_path):
    folder = tmp_path / "checkpoint"
    shutil.copytree(PRETRAINED / "dates-gru", folder)
    (folder / TOKENIZER_NAME).unlink()
    for name in ("source.spm", "target.spm", "vocab.json"):
        (folder / name).write_bytes(b"{}")
    with pytest.raises(ArtefactError, match=r"readable source\.spm"):
        export_torch(str(folder), tmp_path / "artefact")
    assert not (tmp_path / "artefact").exists()
