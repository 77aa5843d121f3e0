"""The machine under a benchmark: its hardware, the versions on it, and what other processes take of it meanwhile."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUIET = 0.10
"""Share of the processors that others may use while something is timed."""
_INSTRUCTIONS = (
    *("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16"),
)
_PACKAGES = (
    *("torch", "transformers", "onnxruntime", "onnxruntime-genai", "openvino", "openvino-genai", "optimum-intel"),
    *("nncf", "ctranslate2", "llama-cpp-python", "numpy", "tokenizers", "tritonclient", "nvidia-pytriton", "grpcio"),
)
_READ_VERSIONS = """
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
    family, model = fields.get("cpu family", "unknown"), fields.get("model", "unknown")
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "")  # noqa: TID251 - a library's own variable (benchmarks/peers/narrow)
    used = f" (all used {limit} at most)" if limit else ""
    return {
        "processor": f"{fields.get('model name', 'unknown')} (family {family}, model {model})",
        "cores": str(os.cpu_count()),
        "instructions": " ".join(flag for flag in _INSTRUCTIONS if flag in flags) + used,
        "memory": f"{memory:.0f} GiB",
    }


def versions(interpreter: str = sys.executable) -> dict[str, str]:
    """The packages of a Python's environment that decide what is measured."""
    done = subprocess.run([interpreter, "-c", _READ_VERSIONS, *_PACKAGES], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def scheduling() -> str:
    """How this process and its children are preferred to others, for a report."""
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        return "Run before all other work on the machine (real-time scheduling, `chrt -f`), and so not disturbed by it."
    return f"Run beside other work, at priority (nice) {os.nice(0)}."


def quiet_environment() -> dict[str, str]:
    """This process's environment, without a model hub and without threads that spin while they wait."""
    kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}  # noqa: TID251 - a launcher
    return {**kept, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}


def processor_seconds() -> tuple[float, float]:
    """Seconds that all processors together have been busy, and that they have had, since the machine started."""
    ticks = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    idle, second = ticks[3] + ticks[4], os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / second, sum(ticks) / second


def wait_until_quiet(patience_s: float, share: float = QUIET) -> None:
    """Wait until all processes use less than a share of the processors, but no longer than the patience."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        busy, passed = processor_seconds()
        time.sleep(0.25)
        later, total = processor_seconds()
        if later - busy < share * max(total - passed, 1e-9):
            return
        time.sleep(0.5)


class OtherProcesses:
    """Measures what other processes use, from when it is made.

    Args:
        groups: process groups that are ours beside this process: servers'.
    """

    def __init__(self, *groups: int | None) -> None:
        self._groups = groups
        self._own, (self._busy, self._passed) = self._own_seconds(), processor_seconds()

    def share(self) -> float:
        """Of the processors, up to now."""
        busy, passed = processor_seconds()
        own = self._own_seconds() - self._own
        return round(max(0.0, busy - self._busy - own) / max(passed - self._passed, 1e-9), 3)

    def _own_seconds(self) -> float:
        seconds = time.process_time()
        for folder in Path("/proc").glob("[0-9]*"):
            words = process_status(folder)
            if words and int(words[2]) in self._groups:
                seconds += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return seconds


def process_status(folder: Path) -> Sequence[str]:
    """The words of ``/proc/PID/stat`` after the process's name: its state, parent, group …; none if it has ended."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ()
