import json
import mmap
import os
import time

import pytest

from attendant.manifest import sha256_of
from export.artefact import remembered_hashes
from export.artefact.remembered_hashes import SMALL, memory_file, remembered_sha256

LONG_AGO_NS = 10**18
SETTLED_NS = remembered_hashes._SETTLED_NS


@pytest.fixture(autouse=True)
def _memory_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(remembered_hashes, "_SETTLED_NS", 0)


@pytest.fixture
def weights(tmp_path):
    """A file that is large enough to be remembered, as it was left long ago."""
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(SMALL))
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    return path


@pytest.fixture
def hashed(monkeypatch):
    """The files that were really hashed, in order."""
    files = []

    def counting(path):
        files.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(remembered_hashes, "sha256_of", counting)
    return files


def test_a_large_file_is_hashed_once(weights, hashed):
    assert [remembered_sha256(weights) for _ in range(3)] == [sha256_of(weights)] * 3
    assert hashed == ["weights"]


def test_a_large_file_keeps_its_hash_when_its_folder_is_put_in_another_place(weights, hashed, tmp_path):
    folder = tmp_path / "staged"
    folder.mkdir()
    weights.rename(folder / "weights")
    before = remembered_sha256(folder / "weights")
    folder.rename(tmp_path / "artefact")
    assert remembered_sha256(tmp_path / "artefact" / "weights") == before
    assert hashed == ["weights"]


@pytest.mark.planted
def test_a_change_is_noticed_even_where_size_and_time_of_writing_are_put_back(weights):
    before = remembered_sha256(weights)
    with weights.open("r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))
    os.utime(weights, ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert weights.stat().st_size == SMALL
    assert remembered_sha256(weights) == sha256_of(weights) != before


@pytest.mark.planted
def test_a_file_put_in_the_place_of_another_is_noticed(weights, tmp_path):
    before = remembered_sha256(weights)
    other = tmp_path / "other"
    other.write_bytes(os.urandom(SMALL))
    other.replace(weights)
    assert remembered_sha256(weights) == sha256_of(weights) != before


def test_a_file_that_was_just_written_is_not_remembered(weights, hashed, monkeypatch):
    monkeypatch.setattr(remembered_hashes, "_SETTLED_NS", 10**18)
    remembered_sha256(weights)
    remembered_sha256(weights)
    assert hashed == ["weights", "weights"]
    assert not memory_file().exists()


def test_a_write_to_shared_memory_that_moves_no_time_is_noticed(weights, monkeypatch):
    monkeypatch.setattr(remembered_hashes, "_SETTLED_NS", SETTLED_NS)
    with weights.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:1] = bytes([memory[0] ^ 1])
        time.sleep(0.1)
        before, state = remembered_sha256(weights), remembered_hashes._state(weights.stat())
        memory[1:2] = bytes([memory[1] ^ 1])
        assert remembered_hashes._state(weights.stat()) == state
        assert remembered_sha256(weights) == sha256_of(weights) != before


def test_a_small_file_is_not_remembered(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert remembered_sha256(tmp_path / "config.json") == sha256_of(tmp_path / "config.json")
    assert not memory_file().exists()


@pytest.mark.parametrize("content", ["", "[]", "null", '{"1-2": 3}', "\0"])
def test_a_damaged_memory_is_no_memory(content, weights, hashed):
    memory_file().parent.mkdir(parents=True)
    memory_file().write_text(content)
    assert remembered_sha256(weights) == sha256_of(weights)
    assert remembered_sha256(weights) == sha256_of(weights)
    assert hashed == ["weights"]


def test_a_memory_that_cannot_be_written_costs_time_only(weights, hashed, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert remembered_sha256(weights) == remembered_sha256(weights) == sha256_of(weights)
    assert hashed == ["weights", "weights"]


def test_the_memory_keeps_the_newest_and_nothing_staged(weights, tmp_path, monkeypatch):
    monkeypatch.setattr(remembered_hashes, "_MOST", 1)
    other = tmp_path / "other"
    other.write_bytes(os.urandom(SMALL))
    remembered_sha256(weights)
    remembered_sha256(other)
    assert [entry[-1] for entry in json.loads(memory_file().read_text()).values()] == [sha256_of(other)]
    assert [path.name for path in memory_file().parent.iterdir()] == ["hashes.json"]
