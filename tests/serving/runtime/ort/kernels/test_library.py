"""Compiled once, for this user alone; and where that cannot be, none, with a line that says why."""

import fcntl
import logging
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from serving.processes import process_fields
from serving.runtime.ort.kernels import library
from serving.runtime.ort.kernels.library import INSTRUCTIONS, cache_folder, kernels
from serving.runtime.processor import has_instructions

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler")


@pytest.fixture
def nothing_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "_FLAGS", ("-O0", *library._FLAGS[1:]))  # a second in place of five
    kernels.cache_clear()
    yield tmp_path / "cache/attendant/kernels"
    kernels.cache_clear()


@needs_kernels
def test_they_are_compiled_once_and_nothing_is_left_over(nothing_compiled, monkeypatch):
    with ThreadPoolExecutor(4) as pool:
        (made,) = {*pool.map(lambda _: kernels(), range(4))}
    assert {*nothing_compiled.iterdir()} == {made, made.with_suffix(".lock")}
    assert nothing_compiled.stat().st_mode & 0o777 == 0o700
    kernels.cache_clear()
    monkeypatch.setattr(subprocess, "Popen", None)
    assert kernels() == made


@needs_kernels
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda patch: patch.setenv("PATH", "/nowhere"), "no C compiler"),
        (lambda patch: patch.setattr(library, "_FLAGS", ("--no-such-flag",)), "returned non-zero"),
        (lambda patch: patch.setattr(library, "WORKER_S", 0.001), "timed out"),
        (lambda patch: patch.setattr(library, "_compile", lambda *any: Path("/etc/passwd")), "invalid ELF"),
        (lambda patch: patch.setattr(library, "cache_folder", full), "disk"),
    ],
)
def test_without_them_the_log_says_why(change, message, nothing_compiled, monkeypatch, caplog):
    change(monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert kernels() is None
    assert message in caplog.text and "slower" in caplog.text


def homeless():
    raise RuntimeError("Could not determine home directory.")


def compiled():
    wanted = library.INSTRUCTIONS[library.vectors()[0]]
    return library._compile(library._SOURCES, cache_folder("kernels"), wanted, print)


def full(name):
    raise OSError("the disk is full")


@needs_kernels
def test_one_process_compiles_as_others_wait_and_none_waits_for_ever(nothing_compiled, monkeypatch, caplog):
    began = []
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **how: began.append(words) or real(*words, **how))
    with ThreadPoolExecutor(4) as pool:
        (made,) = {*pool.map(lambda _: compiled(), range(4))}
    assert len(began) == 1
    monkeypatch.setattr(library, "WORKER_S", 0.3)
    with made.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert kernels() == made, "which waits for nobody"
        kernels.cache_clear()
        made.unlink()
        with caplog.at_level(logging.WARNING):
            assert kernels() is None
    assert "another process takes long" in caplog.text


@pytest.fixture
def hanging(nothing_compiled, monkeypatch, tmp_path):
    """A compiler whose child does not end; a file of the numbers of such children."""
    compiler, started = tmp_path / "bin" / "cc", tmp_path / "started"
    compiler.parent.mkdir()
    compiler.write_text(f"#!/bin/sh\nsleep 90 &\necho $! >> {started}\nwait\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:/usr/bin:/bin")
    monkeypatch.setattr(library, "WORKER_S", 1.0)
    monkeypatch.setattr(library, "AHEAD_S", 1.0)
    yield started
    for number in started.read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(number), signal.SIGKILL)


@needs_kernels
def test_a_compiler_that_hangs_holds_up_one_start(hanging, caplog):
    for _ in range(3):
        with caplog.at_level(logging.WARNING):
            assert kernels() is None
        kernels.cache_clear()
    assert len(hanging.read_text().split()) == 1
    assert "to try again" in caplog.text


@needs_kernels
def test_nothing_of_a_compiler_that_hangs_is_left_where_it_runs_ahead_of_a_server(hanging):
    assert kernels(say=print) is None
    (child,) = hanging.read_text().split()
    until_s = time.monotonic() + 60
    while (Path("/proc") / child).exists() and process_fields(int(child))[0] != "Z":
        assert time.monotonic() < until_s
        time.sleep(0.05)


@needs_kernels
def test_who_waited_in_vain_keeps_nobody_from_waiting_longer_or_compiling(nothing_compiled, monkeypatch):
    made = kernels()
    made.unlink()
    monkeypatch.setattr(library, "WORKER_S", 0.3)
    with made.with_suffix(".lock").open("a") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(2):
            kernels.cache_clear()
            assert kernels() is None
        ahead = pool.submit(compiled)
        time.sleep(0.5)
        assert not ahead.done()
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert ahead.result() == made
    kernels.cache_clear()
    assert kernels() == made


@needs_kernels
@pytest.mark.parametrize("odd", ["half", "pipe", "link", "empty"])
def test_what_is_no_whole_library_is_made_again(odd, nothing_compiled, tmp_path):
    made = kernels()
    content = made.read_bytes()
    made.unlink()
    if odd == "pipe":
        os.mkfifo(made)
    elif odd == "link":
        made.symlink_to(tmp_path / "nowhere")
    else:
        made.write_bytes(content[: len(content) // 2] if odd == "half" else b"")
    kernels.cache_clear()
    assert kernels() == made and made.read_bytes()[:4] == b"\x7fELF" and not made.is_symlink()


@needs_kernels
def test_a_lock_that_is_no_file_is_named(nothing_compiled, caplog):
    made = kernels()
    made.unlink()
    made.with_suffix(".lock").unlink()
    os.mkfifo(made.with_suffix(".lock"))
    kernels.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert kernels() is None
    assert f"{made.stem}.lock is no file; remove it" in caplog.text


@needs_kernels
def test_a_compiler_whose_server_goes_on_is_done_once_it_ends(nothing_compiled, monkeypatch, tmp_path):
    started = tmp_path / "started"
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xe4d"))
    folder.mkdir()
    (folder / "cc").write_text(f'#!/bin/sh\nsleep 60 &\necho $! > {started}\nexec /usr/bin/cc "$@"\n')
    (folder / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(library, "WORKER_S", 40.0)
    began_s = time.monotonic()
    try:
        assert kernels() is not None and time.monotonic() - began_s < 40.0
    finally:
        os.kill(int(started.read_text()), signal.SIGKILL)


@needs_kernels
@pytest.mark.parametrize("when", [0, 1 << 32], ids=["long ago", "by a clock that was ahead"])
def test_after_a_while_it_is_tried_again(nothing_compiled, when):
    made = kernels()
    made.unlink()
    late = made.with_suffix(".late")
    late.touch()
    kernels.cache_clear()
    assert kernels() is None
    os.utime(late, (when, when))
    kernels.cache_clear()
    assert kernels() == made and not late.exists()


@needs_kernels
def test_a_compiler_that_fails_is_not_asked_by_each_start(nothing_compiled, monkeypatch, caplog):
    monkeypatch.setattr(library, "_FLAGS", ("--no-such-flag",))
    assert kernels() is None
    kernels.cache_clear()
    monkeypatch.setattr(subprocess, "Popen", None)
    with caplog.at_level(logging.WARNING):
        assert kernels() is None
    assert "failed lately" in caplog.text


@needs_kernels
def test_what_a_killed_process_left_is_written_over(nothing_compiled):
    made = kernels()
    made.unlink()
    left = made.with_suffix(".part")
    left.mkdir()
    (left / made.name).write_bytes(b"half of it")
    kernels.cache_clear()
    assert kernels() == made and {*nothing_compiled.iterdir()} == {made, made.with_suffix(".lock")}


@pytest.mark.parametrize("place", ["", "a/relative/one"])
def test_a_user_without_a_home_is_told_what_to_set(place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(FileNotFoundError, match="set XDG_CACHE_HOME"):
        cache_folder("kernels")


@pytest.mark.parametrize(
    ("mode", "group", "trusted"), [(0o777, 0, False), (0o1777, 0, True), (0o775, 0, True), (0o775, 1, False)]
)
def test_folders_above_are_those_that_nobody_else_can_change(mode, group, trusted, nothing_compiled, monkeypatch):
    cache_folder("kernels")
    nothing_compiled.parent.parent.chmod(mode)
    monkeypatch.setattr(library.os, "getegid", lambda: nothing_compiled.stat().st_gid + group)
    if trusted:
        assert cache_folder("kernels") == nothing_compiled
    else:
        with pytest.raises(PermissionError, match="XDG_CACHE_HOME"):
            cache_folder("kernels")


def test_a_link_on_the_way_is_followed_once(nothing_compiled, monkeypatch, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert cache_folder("kernels") == nothing_compiled


@needs_kernels
def test_what_others_could_have_written_is_not_run(nothing_compiled, caplog):
    kernels()
    kernels.cache_clear()
    nothing_compiled.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert kernels() is None
    assert "chmod 700" in caplog.text
    with pytest.raises(PermissionError):
        cache_folder("kernels")


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        ("avx avx512f avx_vnni", ()),
        ("avx2 fma avx512f", ("avx2",)),
        ("avx2 fma avx_vnni", ("avx2-vnni", "avx2")),
        ("avx2 fma avx512f avx512bw avx512vl avx512_vnni", ("avx512-vnni", "avx2")),
    ],
)
def test_the_fastest_vectors_of_the_processor_are_used(flags, kinds, nothing_compiled, monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr(library, "has_instructions", lambda wanted: has_instructions(wanted, tmp_path / "cpuinfo"))
    assert library.vectors() == kinds
    made = []
    monkeypatch.setattr(library, "_compile", lambda sources, folder, wanted, *_: made.append(wanted) or "libc.so.6")
    assert kernels() == ("libc.so.6" if kinds else None)
    assert made == [INSTRUCTIONS[kind] for kind in kinds[:1]] and (kinds or not nothing_compiled.exists())
