from pathlib import Path

import pytest

from models.errors import OutputError
from models.train.folder import replacing


def wrote(folder: Path, text: str) -> None:
    with replacing(folder) as staging:
        (staging / "config.json").write_text(text)


def test_the_new_folder_takes_the_place_of_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    wrote(tmp_path / "deep" / "model", "old")
    wrote(tmp_path / "deep" / "model", "new")
    assert (tmp_path / "deep" / "model" / "config.json").read_text() == "new"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model"]


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    wrote(tmp_path / "model", "old")
    with pytest.raises(RuntimeError, match="diverged"), replacing(tmp_path / "model") as staging:
        (staging / "config.json").write_text("half")
        raise RuntimeError("diverged")
    assert (tmp_path / "model" / "config.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_with_other_things_in_it_is_refused_before_the_work_begins(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match=r"thesis\.tex"), replacing(tmp_path):
        pytest.fail("the work began")
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("")
    with pytest.raises(OutputError, match="a file"), replacing(tmp_path / "model"):
        pytest.fail("the work began")


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="can be written"), replacing(tmp_path / "file" / "model"):
        pytest.fail("the work began")
