"""A library that asks the processor is told of AVX2 alone, by the real instruction and the real trap."""

import platform
import shutil
import subprocess
import sys

import pytest

from benchmarks.peers.narrow.__main__ import narrow_environment, trap_cpuid

ASKING = """
#include <cpuid.h>
unsigned asked(unsigned part, unsigned which) {
    unsigned found[4];
    __cpuid_count(7, part, found[0], found[1], found[2], found[3]);
    return found[which];
}
"""
ASK = "import ctypes, sys; asked = ctypes.CDLL(sys.argv[1]).asked; asked.restype = ctypes.c_uint; print(asked(0, 1))"
AVX2, AVX512F = 1 << 5, 1 << 16


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not (shutil.which("cc") and shutil.which("objdump")),
    reason="needs x86, a C compiler and objdump",
)
def test_a_library_finds_no_more_than_avx2(tmp_path):
    (tmp_path / "asking.c").write_text(ASKING)
    library, kept = tmp_path / "asking.so", tmp_path / "kept.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "asking.c"], check=True)
    kept.hardlink_to(library)

    def asked(path, environment=None):
        words = [sys.executable, "-c", ASK, path]
        return int(subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout)

    real = asked(library)
    assert trap_cpuid(library) == 1
    environment = narrow_environment(tmp_path / "build")
    assert asked(library, environment) == real & ~(AVX512F | 0xDC230000) and asked(kept, environment) == real
    assert asked(library, environment) & AVX2 == real & AVX2
