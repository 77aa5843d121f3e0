from __future__ import annotations

from pathlib import Path

import pytest

from attendant.errors import MachineError
from serving.triton.server.python_library import NeededLibrary, library_directory, loader_trace, needed_library

TRACE = """
	linux-vdso.so.1 (0x00007f2439ffe000)
	libpython3.12.so.1.0 => {place}
	libstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007f2439600000)
"""
NAME = "libpython3.12.so.1.0"


def test_a_library_that_the_loader_finds_is_read_with_its_place():
    needed = needed_library(TRACE.format(place=f"/usr/lib/{NAME} (0x00007f5c)"))
    assert needed == NeededLibrary(name=NAME, found_at=Path("/usr/lib") / NAME)


def test_a_library_that_the_loader_misses_is_read_without_a_place():
    assert needed_library(TRACE.format(place="not found")) == NeededLibrary(name=NAME, found_at=None)


def test_the_hashed_copy_inside_a_wheel_is_recognised():
    needed = needed_library("\tlibpython3-419a3a08.13.so.1.0 => /site/libs/libpython3-419a3a08.13.so.1.0 (0x7f)\n")
    assert needed is not None
    assert needed.name == "libpython3-419a3a08.13.so.1.0"


def test_a_program_without_python_needs_no_library():
    assert needed_library("\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n") is None


def test_the_interpreters_own_directory_is_preferred_to_the_loaders(tmp_path: Path):
    (tmp_path / NAME).touch()
    needed = NeededLibrary(name=NAME, found_at=Path("/usr/lib") / NAME)
    assert library_directory(needed, [tmp_path / "empty", tmp_path], "3.12") == tmp_path


def test_the_loader_needs_no_help_with_a_library_on_its_own_paths(tmp_path: Path):
    needed = NeededLibrary(name=NAME, found_at=Path("/usr/lib") / NAME)
    assert library_directory(needed, [tmp_path], "3.12") is None


def test_a_missing_library_is_named_with_how_to_install_it(tmp_path: Path):
    needed = NeededLibrary(name=NAME, found_at=None)
    with pytest.raises(MachineError, match=rf"{NAME}.*none in {tmp_path}.*apt-get install libpython3\.12"):
        library_directory(needed, [tmp_path], "3.12")


def test_tracing_lists_libraries_and_runs_nothing(tmp_path: Path):
    touch = next(path for path in (Path("/usr/bin/touch"), Path("/bin/touch")) if path.exists())
    assert "libc.so" in loader_trace(touch)
