from pathlib import Path

import pytest

from attendant.errors import OutputError
from models.checkpoints.folder import replaced_checkpoint


def wrote(folder: Path, text: str) -> None:
    with replaced_checkpoint(folder) as staging:
        (staging / "config.json").write_text(text)


def test_the_new_checkpoint_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    wrote(tmp_path / "model", "old")
    wrote(tmp_path / "model", "new")
    assert (tmp_path / "model" / "config.json").read_text() == "new"


def test_a_folder_with_other_things_in_it_is_refused_before_the_work_begins(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match=r"thesis\.tex"), replaced_checkpoint(tmp_path):
        pytest.fail("the work began")
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("")
    with pytest.raises(OutputError, match="not a folder"), replaced_checkpoint(tmp_path / "model"):
        pytest.fail("the work began")
