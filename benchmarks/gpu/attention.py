"""Our kernels of attention beside the libraries', on one GPU, in one run with its copy bandwidth and matmul peak.

Every call finds its inputs in memory and not in a cache; times are medians. float16 throughout. Prefill and decode:
``torch.nn.functional.scaled_dot_product_attention`` by each of its back ends. Windows: the library's route cuts the
map, attends with the bias and mask of all pairs, and joins, by SDPA, by FlexAttention and compiled as a whole; ours
reads the map as it lies, and is held to all of that. A step that writes its cache and additive attention have no
target. Writes ``<date>-gpu-attention.md`` and ``.json``.

``--quick`` is a trial on tiny sizes, on any machine; without a GPU kernels are interpreted (TRITON_INTERPRET=1), and
nothing is compiled.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial

import torch

from attendant.errors import MachineError
from attendant.progress import progress
from benchmarks.gpu.cases import Case, decode, prefill
from benchmarks.gpu.clock import Roofs, describe_gpu, milliseconds, roofs
from benchmarks.gpu.step_cases import additive, append
from benchmarks.gpu.window_cases import windows
from benchmarks.harness.report import RESULTS, Benchmark, table
from models.kernel_configs.gpu_targets import target_of
from serving.runtime.torch.attention import find_hopper_prefill

BENCHMARK = Benchmark("gpu-attention", "Attention on a GPU", __doc__, "benchmarks.gpu.attention")
KINDS = ("prefill", "hopper", "decode", "append", "windows", "additive")
HOPPER_CASES = (
    (32, 12, 12, 197, 64, False),
    (4, 16, 16, 512, 64, True),
    (1, 32, 8, 512, 128, True),
    (8, 16, 16, 1024, 64, False),
    (1, 32, 8, 2048, 128, True),
    (4, 16, 16, 2048, 64, True),
    (1, 32, 8, 8192, 128, True),
    (4, 16, 16, 8192, 64, True),
)
"""Batch, query heads, key heads, positions, head size, and whether it is causal."""
TARGETS = {"prefill": 0.9, "hopper": 0.95, "decode": 1.2, "windows": 2.0}
"""How many times as fast as the best library a kernel is to be; others have no target."""
DECODE_BANDWIDTH, LONG_CACHE = 0.85, 4096
"""Part of the copy bandwidth that decoding is to reach behind caches of this length and longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One case's times in milliseconds; a library that cannot do it has none, and a reason."""

    kind: str
    name: str
    ours: float
    rivals: dict[str, float | None]
    flops: int
    moved_bytes: int
    cached: int
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def speedup(self) -> float | None:
        """Times as fast as the fastest library."""
        times = [time for time in self.rivals.values() if time is not None]
        return min(times) / self.ours if times else None

    def roof_part(self, limits: Roofs) -> float:
        """Part of the bandwidth, behind a cache, or else of the roof that is nearer."""
        memory = self.moved_bytes / (self.ours / 1e3) / limits.bytes_per_second
        return memory if self.cached else max(memory, self.flops / (self.ours / 1e3) / limits.flops)


def cases(quick: bool, device: torch.device) -> Iterator[tuple[str, Callable[[], Case]]]:
    """The kind of each case, and what makes it when its turn comes, so that two never share the memory."""
    if quick:
        compiles = device.type == "cuda"
        yield "prefill", partial(prefill, 1, 2, 1, 20, 16, True, device)
        yield "decode", partial(decode, 2, 4, 2, 300, 16, 4, device)
        yield "append", partial(append, 2, 4, 2, 40, 16, 4, device)
        for cosine in (False, True):
            yield "windows", partial(windows, 1, 8, 2, 16, 4, 2, device, cosine=cosine, compiles=compiles)
        yield "additive", partial(additive, 2, 9, 16, 24, device, compiles=compiles)
        return
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    for length in (512, 2048, 8192, 16384):
        yield "prefill", partial(prefill, 1, 32, 8, length, 128, True, device)
        yield "prefill", partial(prefill, 4, 16, 16, length, 64, True, device)
    yield "prefill", partial(prefill, 32, 12, 12, 197, 64, False, device)
    yield "prefill", partial(prefill, 8, 16, 16, 1024, 80, False, device)
    by_hopper = find_hopper_prefill() if target_of(device).name == "sm_90" else None
    if by_hopper is not None:
        for batch, heads, kv_heads, length, size, causal in HOPPER_CASES:
            sizes = batch, heads, kv_heads, length, size, causal, device, by_hopper
            yield "hopper", partial(prefill, *sizes, kind="hopper")
    for batch in (1, 4, 16):
        for cached in (1024, 4096, 16384, 65536):
            yield "decode", partial(decode, batch, 32, 8, cached, 128, multiprocessors, device)
        yield "append", partial(append, batch, 32, 8, 4096, 128, multiprocessors, device)
    for side, heads in ((56, 3), (28, 6), (14, 12), (7, 24)):
        yield "windows", partial(windows, 64, side, heads, 32, 7, 3 if side > 7 else 0, device)
    yield "windows", partial(windows, 64, 64, 3, 32, 8, 4, device, cosine=True)
    yield "windows", partial(windows, 16, 64, 4, 32, 16, 8, device, cosine=True)
    for batch, source, width, columns in ((32, 50, 1000, 2000), (32, 196, 512, 512)):
        yield "additive", partial(additive, batch, source, width, columns, device)


def measure(case: Case, clock: Callable[[Callable[[], object]], float]) -> Measured:
    rivals: dict[str, float | None] = {}
    refused = {}
    for name, call in case.rivals.items():
        try:
            rivals[name] = clock(call)
        except torch.AcceleratorError:  # the device is not to be trusted any more
            raise
        except (RuntimeError, ValueError) as error:
            rivals[name], refused[name] = None, str(error).strip().split("\n", 1)[0]
    return Measured(
        kind=case.kind,
        name=case.name,
        ours=clock(case.ours),
        rivals=rivals,
        flops=case.flops,
        moved_bytes=case.moved_bytes,
        cached=case.cached,
        refused=refused,
    )


def report(measured: list[Measured], limits: Roofs) -> Iterator[str]:
    """A table a kind, with whether each case reaches its target."""
    yield f"- copy bandwidth: {limits.bytes_per_second / 1e9:.0f} GB/s read and written"
    yield f"- product of matrices of 8192, float16: {limits.flops / 1e12:.0f} TFLOP/s"
    for kind in dict.fromkeys(one.kind for one in measured):
        of_kind = [one for one in measured if one.kind == kind]
        target = f"at least {TARGETS[kind]} × the best library" if kind in TARGETS else "no target"
        libraries = list(dict.fromkeys(name for one in of_kind for name in one.rivals))
        rows = []
        for one in of_kind:
            times = [show(one.rivals.get(name), ".4f") for name in libraries]
            verdict = {True: "reached", False: "missed", None: ""}[reaches(one, limits)]
            share = f"{100 * one.roof_part(limits):.0f}"
            rows.append([one.name, f"{one.ours:.4f}", *times, show(one.speedup, ".2f"), share, verdict])
        heads = ["case", "ours ms", *(f"{name} ms" for name in libraries), "× best", "% roof", "target"]
        yield f"\n## {kind}: {target}\n\n{table(heads, rows)}"
        reasons = {(name, why) for one in of_kind for name, why in one.refused.items()}
        yield from ([""] if reasons else [])
        for name, why in sorted(reasons):
            yield f"- {name}, where it has no time: {why}"


def show(number: float | None, form: str) -> str:
    return "" if number is None else f"{number:{form}}"


def reaches(one: Measured, limits: Roofs) -> bool | None:
    """Whether a case is as fast as it is to be; None if no library could be compared, or there is no target."""
    if one.speedup is None or one.kind not in TARGETS:
        return None
    wide_enough = one.cached < LONG_CACHE or one.roof_part(limits) >= DECODE_BANDWIDTH
    return one.speedup >= TARGETS[one.kind] and wide_enough


def main() -> None:
    parser = BENCHMARK.parser()
    parser.set_defaults(out=RESULTS)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS, help="that are measured")
    parser.add_argument("--quick", action="store_true", help="a trial on tiny sizes, on any machine")
    args = parser.parse_args()
    if not args.quick and not torch.cuda.is_available():
        raise MachineError("a CUDA device", "none", "run this where PyTorch sees one, or try --quick")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    limits = roofs(device, 2**20, 128) if args.quick else roofs(device)
    makers, measured = [make for kind, make in cases(args.quick, device) if kind in args.kinds], []
    with progress("cases", len(makers)) as advance:
        for make in makers:
            measured.append(measure(make(), partial(milliseconds, device=device)))
            advance(measured[-1].name)
    record = {"roofs": asdict(limits), "measured": [asdict(one) for one in measured]}
    BENCHMARK.publish(args, report(measured, limits), record, describe_gpu())


if __name__ == "__main__":
    main()
