"""Runs a benchmark as on a processor with AVX2 and no more: python -m benchmarks.peers.narrow -m benchmarks.decode.

ONNX Runtime has no switch for its instructions, and OpenVINO asks the processor itself, whatever oneDNN obeys. So
their libraries are copied with an instruction that traps in the place of each CPUID, and the answer is made here.
All happens in a clone of what is committed, in build/narrow; it needs objdump, readelf and a C compiler.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.machine import ROOT, quiet_environment

PLACE = ROOT / "build" / "narrow"
PACKAGES = ("onnxruntime", "onnxruntime_genai", "openvino", "openvino_genai", "openvino_tokenizers")
CPUID, TRAP = b"\x0f\xa2", b"\x0f\x0b"
_SOURCE = Path(__file__).with_name("hide_instructions.c")


def main() -> int:
    """The status of the command."""
    command = sys.argv[1:]
    if command in ([], ["-h"], ["--help"]):
        sys.stdout.write(f"usage: python -m benchmarks.peers.narrow WORDS FOR PYTHON\n\n{__doc__}")
        return 0
    copy_project(PLACE)
    for library in libraries(PLACE):
        found = trap_cpuid(library)
        if found:
            sys.stderr.write(f"{library.relative_to(PLACE)}: {found} times\n")
    environment = narrow_environment(PLACE / "build")
    return subprocess.run([PLACE / ".venv/bin/python", *command], cwd=PLACE, env=environment).returncode


def copy_project(place: Path) -> None:
    """A clone of this checkout with its environments, whose files are links, and with what was made for peers."""
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run(["/usr/bin/env", "git", "clone", "--quiet", "--shared", ROOT, place], check=True)
    for name in (".venv", "build/peers"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, place / name, symlinks=True, copy_function=os.link)
    if (made := ROOT / "build/benchmarks").exists():
        shutil.copytree(made, place / "build/benchmarks", symlinks=True)


def libraries(place: Path) -> Iterator[Path]:
    """The libraries that choose among instructions."""
    for environment in (".venv", "build/peers/*"):
        for name in PACKAGES:
            for path in place.glob(f"{environment}/lib/python3*/site-packages/{name}/**/*.so*"):
                if not path.is_symlink() and CPUID in path.read_bytes():
                    yield path


def trap_cpuid(library: Path) -> int:
    """Put a trap in the place of each CPUID of a library, in a file of its own; how many there were."""
    code = subprocess.run(
        ["/usr/bin/env", "objdump", "-d", "-w", library], check=True, capture_output=True, text=True
    ).stdout
    headers = subprocess.run(
        ["/usr/bin/env", "readelf", "-lW", library], check=True, capture_output=True, text=True
    ).stdout
    loaded = [
        tuple(int(number, 16) for number in match.groups())
        for match in re.finditer(r"LOAD\s+0x(\w+)\s+0x(\w+)\s+0x\w+\s+0x(\w+)", headers)
    ]
    data, count = bytearray(library.read_bytes()), 0
    for match in re.finditer(r"^\s*(\w+):\s+0f a2\s+cpuid", code, re.MULTILINE):
        address = int(match[1], 16)
        (place,) = (address - at + offset for offset, at, size in loaded if at <= address < at + size)
        assert data[place : place + 2] == CPUID
        data[place : place + 2], count = TRAP, count + 1
    library.unlink()  # it is a link to another's
    library.write_bytes(data)
    return count


def narrow_environment(folder: Path) -> dict[str, str]:
    """In which those libraries find AVX2, and what keeps to oneDNN's variable as well."""
    library = folder / "hide_instructions.so"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["/usr/bin/env", "cc", "-O2", "-shared", "-fPIC", "-o", library, _SOURCE], check=True)
    return {**quiet_environment(), "LD_PRELOAD": str(library), "ONEDNN_MAX_CPU_ISA": "AVX2"}


if __name__ == "__main__":
    raise SystemExit(main())
