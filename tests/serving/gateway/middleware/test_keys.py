import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from attendant.errors import ArtefactError, ConfigError, UnknownNameError
from serving.gateway.middleware import keys as keys_module
from serving.gateway.middleware.keys import Keys, new_key, read_keys, revoke_key


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def test_a_key_is_found_by_its_secret_which_stands_nowhere(path):
    secret = new_key(path, "ann", requests="60/minute")
    other = new_key(path, "ben")
    keys = Keys(path)
    assert (keys.find(secret).name, keys.find(other).name) == ("ann", "ben")
    assert keys.find("") is None and keys.find(secret[:-1]) is None and keys.find(keys.find(secret).sha256) is None
    assert secret.removeprefix("att-") not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_that_is_revoked_is_found_no_more(path):
    secret = new_key(path, "ann")
    keys = Keys(path)
    assert keys.find(secret)
    revoke_key(path, "ann")
    assert keys.find(secret) is None
    with pytest.raises(UnknownNameError, match="ann"):
        revoke_key(path, "ann")


def test_a_name_is_given_once_and_a_limit_must_be_one(path):
    new_key(path, "ann")
    with pytest.raises(ConfigError, match="ann"):
        new_key(path, "ann")
    with pytest.raises(ConfigError, match="600/minute"):
        new_key(path, "ben", requests="many")
    with pytest.raises(ConfigError, match="printable name"):
        new_key(path, "two\nlines")
    assert len(json.loads(path.read_text())["keys"]) == 1


def test_a_damaged_file_is_refused_by_name(path):
    with pytest.raises(ArtefactError, match=r"keys\.json"):
        Keys(path)
    path.write_text('{"keys": [{"who": "ann"}]}')
    with pytest.raises(ArtefactError, match="attendant keys new"):
        Keys(path)


def test_a_link_or_an_open_file_where_the_new_one_is_written_is_neither_followed_nor_kept(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "keys.json.part").symlink_to(victim)
    secret = new_key(path, "ann")
    assert victim.read_text() == "precious" and Keys(path).find(secret)
    (tmp_path / "keys.json.part").unlink()
    (tmp_path / "keys.json.part").touch(0o666)
    (tmp_path / "keys.json.part").chmod(0o666)
    new_key(path, "ben")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_readers_that_were_let_in_stay_and_nobody_else_comes_in(path):
    new_key(path, "ann")
    path.chmod(0o666)
    new_key(path, "ben")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_no_key_is_lost_where_many_are_made_at_once(path):
    code = "import sys\nfrom serving.gateway.middleware.keys import new_key\nfrom pathlib import Path\n"
    code += "for number in range(12): new_key(Path(sys.argv[1]), f'{sys.argv[2]}-{number}')"
    makers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(one)]) for one in range(2)]
    assert [maker.wait(120) for maker in makers] == [0, 0]
    assert len(read_keys(path)) == 24
    assert {one.name for one in path.parent.iterdir()} == {"keys.json"}


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"keys": [1]}', '{"keys": [{"name": 1, "sha256": ""}]}', "[" * 10**5],
    ids=["empty", "cut", "list", "number", "types", "deep"],
)
def test_the_last_good_keys_are_kept_while_the_file_is_damaged_or_gone(path, caplog, damage):
    secret = new_key(path, "ann")
    keys = Keys(path)
    good = path.read_bytes()
    path.write_text(damage)
    assert keys.find(secret) and not keys.is_current and caplog.text.count("the keys that were read last are kept") == 1
    path.unlink()
    assert keys.find(secret) and not keys.is_current
    path.write_bytes(good.replace(b"ann", b"ben"))
    assert keys.find(secret).name == "ben" and keys.is_current


@pytest.mark.planted
def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(path, monkeypatch, caplog):
    secret = new_key(path, "ann")
    keys = Keys(path)

    def refuse(path):
        raise ArtefactError("keys", "OSError: too many open files", "none")

    revoke_key(path, "ann")
    with monkeypatch.context() as lacking:
        lacking.setattr(keys_module, "read_keys", refuse)
        assert keys.find(secret) and keys.find(secret) and not keys.is_current
    monkeypatch.setattr(keys_module, "AGAIN_S", 0.0)
    assert keys.find(secret) is None and keys.is_current
    assert caplog.text.count("the keys that were read last are kept") == 1


def test_a_change_is_noticed_though_the_clock_says_the_same(path):
    secret = new_key(path, "ann")
    keys = Keys(path)
    then = path.stat().st_mtime_ns
    revoke_key(path, "ann")
    os.utime(path, ns=(then, then))
    assert keys.find(secret) is None


@pytest.mark.parametrize("limit", ["60/minute;1000/day", "60/minute|1000/day"])
def test_of_several_limits_none_is_dropped_in_silence(path, limit):
    with pytest.raises(ConfigError, match="a limit such as 600/minute"):
        new_key(path, "ann", requests=limit)


@pytest.mark.parametrize("limit", [f"5 per {'9' * 400} year", "5 per 200 year", f"{10**16}/minute"])
def test_a_limit_that_no_clock_or_counter_holds_is_refused(path, limit):
    with pytest.raises(ConfigError, match="a limit such as 600/minute, of at most a hundred years"):
        new_key(path, "ann", tokens=limit)
    new_key(path, "ann", requests="5 per 99 year", tokens=f"{10**15}/minute")


def test_a_pipe_in_the_place_of_the_file_does_not_hold_up_the_gateway(path):
    secret = new_key(path, "ann")
    keys = Keys(path)
    path.unlink()
    os.mkfifo(path)
    assert keys.find(secret) is not None
    assert not keys.is_current


def test_a_file_that_may_not_be_read_says_how_it_may(path, monkeypatch):
    new_key(path, "ann")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root, as whom tests may run, may read any file
    with pytest.raises(ArtefactError, match="chmod 640"):
        Keys(path)


def test_what_a_killed_writer_has_left_is_cleared_away(path):
    new_key(path, "ann")
    path.with_name(f".{path.name}.abcdefgh.part").write_text("half")
    new_key(path, "ben")
    assert [one for one in path.parent.iterdir() if one.suffix == ".part"] == []


def test_a_key_that_could_not_be_shown_is_not_kept(path):
    new_key(path, "ann")
    words = [sys.executable, "-m", "attendant", "keys", "new", "--name", "ben", "--file", str(path)]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(words, stdout=full, stderr=subprocess.PIPE, timeout=60).returncode == 1
    assert [key["name"] for key in json.loads(path.read_text())["keys"]] == ["ann"]
