"""On what and with which versions a benchmark ran."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from benchmarks.peers.processes import interpreter

_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
)
_PACKAGES = (
    "torch",
    "transformers",
    "onnxruntime",
    "onnxruntime-genai",
    "openvino",
    "openvino-genai",
    "optimum-intel",
    "nncf",
    "ctranslate2",
    "numpy",
)
_ASK = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def hardware() -> dict[str, str]:
    """The processor, what it has of the instructions that decide, its cores, and memory."""
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines()
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = set(fields.get("flags", "").split())
    memory = int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1]) / 2**20
    return {
        "processor": f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})",
        "cores": str(os.cpu_count()),
        "instructions": " ".join(flag for flag in _FLAGS if flag in flags),
        "memory": f"{memory:.0f} GiB",
    }


def versions(environments: Iterable[str]) -> dict[str, dict[str, str]]:
    """Environment → package → version."""
    return {name: _versions(name) for name in sorted(set(environments))}


def _versions(environment: str) -> dict[str, str]:
    command = [interpreter(environment), "-c", _ASK, *_PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
