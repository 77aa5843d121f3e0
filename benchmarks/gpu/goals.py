"""The goals of our kernels on a GPU: each fraction that was measured, its goal, and whether it is held.

    plugin   prefill as TensorRT's plugins have it, within 48 KiB of shared memory: speed, of FlashAttention-3's
    hopper   prefill in Gluon, on sm_90: the same fraction
    decode   one new position behind a cache: bytes a second as a fraction of a copy's

FlashAttention-3 is the package ``flash_attn_interface``. Where it is not installed, the faster of
``scaled_dot_product_attention`` by cuDNN and by FlashAttention-2 stands in for it, and each row says which. A goal is
held if its lowest fraction reaches it. Inputs are float16 and in no cache; times are medians of one run. Writes
``<date>-gpu-goals.md`` and ``.json``.

The exit status is 1 if a goal is missed or could not be measured. ``--quick`` is a trial on tiny sizes, on any machine,
which decides nothing; without a GPU kernels are interpreted (TRITON_INTERPRET=1).
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor
from triton.runtime.errors import TritonError

from attendant.errors import ConfigError, MachineError
from attendant.progress import progress
from benchmarks.gpu.cases import Call, Case, attention_inputs, by_library, decode
from benchmarks.gpu.clock import describe_gpu, milliseconds, roofs
from benchmarks.harness.report import RESULTS, Benchmark, table
from models.kernel_configs.gpu_targets import WITHOUT_LEAVE_BYTES, target_of
from models.kernels.flash_attention import flash_attention

BENCHMARK = Benchmark("gpu-goals", "Goals on a GPU", __doc__, "benchmarks.gpu.goals")
GOALS = {"plugin": 0.75, "hopper": 0.95, "decode": 0.85}
FLASH_ATTENTION_3 = "FlashAttention-3"
STAND_INS = ("cuDNN", "flash")
"""Back ends of ``scaled_dot_product_attention``."""
Sizes = tuple[int, int, int, int, int, bool]
Clock = Callable[[Call], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fraction:
    """What one case reaches of its measure.

    Attributes:
        goal: of :data:`GOALS`.
        case: sizes.
        measure: with what it was compared.
        value: our speed over that of the measure; none if one of them could not be timed.
        reason: why there is none.
    """

    goal: str
    case: str
    measure: str
    value: float | None
    reason: str = ""


def prefill_cases(quick: bool) -> tuple[Sizes, ...]:
    """Batch, query heads, key heads, positions, head size, and whether it is causal."""
    if quick:
        return ((1, 2, 1, 20, 64, True),)
    causal = tuple((1, 32, 8, length, 128, True) for length in (2048, 8192, 16384))
    return (*causal, (4, 16, 16, 4096, 64, True), (4, 16, 16, 4096, 128, False), (4, 16, 16, 4096, 64, False))


def decode_cases(quick: bool) -> tuple[tuple[int, int, int, int, int], ...]:
    """Batch, query heads, key heads, cached positions, head size."""
    if quick:
        return ((2, 4, 2, 300, 16),)
    return tuple((batch, 32, 8, cached, 128) for batch in (1, 16) for cached in (4096, 16384, 65536))


def prefill_fractions(sizes: Sizes, clock: Clock, device: torch.device) -> Iterator[Fraction]:
    """The fractions of both prefills, of one measure."""
    batch, heads, kv_heads, length, size, causal = sizes
    q, k, v = attention_inputs(batch, heads, kv_heads, length, length, size, device)
    lengths = torch.full((batch,), length, dtype=torch.int32, device=device)
    case = f"{'causal' if causal else 'full'}, B {batch}, H {heads}/{kv_heads}, S {length}, D {size}"
    times, refused = time_libraries(libraries(q, k, v, causal), clock)
    for goal, prefill in (("plugin", plugin_prefill), ("hopper", hopper_prefill)):
        ours, reason = time_call(partial(prefill, q, k, v, lengths, causal), clock)
        yield compare(goal, case, ours, times, reason or refused)


def compare(goal: str, case: str, ours: float | None, times: Mapping[str, float], reason: str = "") -> Fraction:
    """Our time beside the shortest of the libraries'."""
    if ours is None or not times:
        return Fraction(goal=goal, case=case, measure=", ".join(times) or "none", value=None, reason=reason)
    fastest = min(times, key=lambda name: times[name])
    return Fraction(goal=goal, case=case, measure=fastest, value=times[fastest] / ours)


def decode_fraction(case: Case, clock: Clock, bytes_per_second: float) -> Fraction:
    """Bytes a second that decoding reads, over those that a copy reads and writes."""
    ours, reason = time_call(case.ours, clock)
    reached = None if ours is None else case.moved_bytes / (ours / 1e3) / bytes_per_second
    measure = f"a copy, {bytes_per_second / 1e9:.0f} GB/s"
    return Fraction(goal="decode", case=case.name, measure=measure, value=reached, reason=reason)


def libraries(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> dict[str, Call]:
    """FlashAttention-3, or torch's back ends where it is not installed."""
    try:
        attend = importlib.import_module("flash_attn_interface").flash_attn_func
    except ImportError:
        return {name: by_library(name, q, k, v, causal) for name in STAND_INS}
    positions_first = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    return {FLASH_ATTENTION_3: lambda: attend(*positions_first, causal=causal)}


def time_libraries(calls: Mapping[str, Call], clock: Clock) -> tuple[dict[str, float], str]:
    """Times of those that can, and what the others say."""
    timed = {name: time_call(call, clock) for name, call in calls.items()}
    times = {name: time for name, (time, _) in timed.items() if time is not None}
    return times, "; ".join(f"{name}: {reason}" for name, (_, reason) in timed.items() if reason)


def time_call(call: Call, clock: Clock) -> tuple[float | None, str]:
    """Milliseconds, or why there are none."""
    try:
        return clock(call), ""
    except torch.AcceleratorError:  # the device is not to be trusted any more
        raise
    except (RuntimeError, ValueError, TritonError, ConfigError, MachineError) as error:
        return None, str(error).strip().split("\n", 1)[0]


def plugin_prefill(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, causal: bool) -> Tensor:
    target = replace(target_of(q.device), shared_bytes=WITHOUT_LEAVE_BYTES)
    return flash_attention(q, k, v, lengths, causal, target=target)


def hopper_prefill(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, causal: bool) -> Tensor:
    try:
        from models.kernels.hopper_flash_attention import hopper_flash_attention
    except (ImportError, AttributeError) as error:
        raise MachineError("a Triton with Gluon", str(error), "install triton 3.7.1 or 3.9.0") from error
    return hopper_flash_attention(q, k, v, lengths, causal)


def decide(found: list[Fraction], trial: bool = False) -> dict[str, str]:
    """Goal → held, missed or not measured: by its lowest fraction, of which none may be absent."""
    decided = {}
    for goal, least in GOALS.items():
        values = [one.value for one in found if one.goal == goal]
        known = [value for value in values if value is not None]
        if trial or not known:
            decided[goal] = "not measured"
        elif min(known) < least:
            decided[goal] = "missed"
        else:
            decided[goal] = "held" if len(known) == len(values) else "not measured"
    return decided


def report(found: list[Fraction], missing: list[str], trial: bool = False) -> Iterator[str]:
    """A line a goal, what is missing here, and a row a case."""
    for goal, verdict in decide(found, trial).items():
        cases = [one for one in found if one.goal == goal]
        known = {one.measure: one.value for one in cases if one.value is not None}
        values = [one.value for one in cases if one.value is not None]
        lowest = f", lowest {min(values):.3f}" if values else ""
        measured = f"{len(values)} of {len(cases)} cases measured against {', '.join(known) or 'nothing'}"
        yield f"- {goal}: {verdict}; goal {GOALS[goal]:.2f}{lowest}; {measured}"
    yield from ([""] if missing else [])
    yield from (f"- missing here: {one}" for one in missing)
    rows = []
    for one in found:
        value = "" if one.value is None else f"{one.value:.3f}"
        rows.append([one.goal, one.case, one.measure, value, f"{GOALS[one.goal]:.2f}", _verdict(one, trial)])
    yield "\n" + table(["goal", "case", "compared with", "fraction", "goal", "held"], rows)


def _verdict(one: Fraction, trial: bool) -> str:
    if one.value is None:
        return f"not measured: {one.reason}"
    if trial:
        return "not measured: a trial"
    return "held" if one.value >= GOALS[one.goal] else "missed"


def find_missing() -> list[str]:
    """What this machine lacks for all goals to be decided as they are meant."""
    missing = []
    if not torch.cuda.is_available():
        missing.append("a CUDA device that torch sees: an H100 or H200 for all goals")
    elif target_of(torch.device("cuda")).name != "sm_90":
        missing.append(f"a GPU of capability 9.0, for the goal hopper; this is {target_of(torch.device('cuda')).name}")
    if not is_installed("triton.experimental.gluon"):
        missing.append("a Triton with Gluon, 3.7.1 or 3.9.0, for the goal hopper")
    if not is_installed("flash_attn_interface"):
        missing.append(f"{FLASH_ATTENTION_3}, the package flash_attn_interface: torch's back ends stand in for it")
    return missing


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor the package around it
        return False


def main() -> int:
    """Measure, print and write the fractions; 0 if every goal is held."""
    parser = BENCHMARK.parser()
    parser.set_defaults(out=RESULTS)
    parser.add_argument("--quick", action="store_true", help="a trial on tiny sizes, on any machine")
    args = parser.parse_args()
    if not args.quick and not torch.cuda.is_available():
        missing = "; ".join(find_missing())
        parser.error(f"none of the goals {', '.join(GOALS)} can be measured; missing here: {missing}; try --quick")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    clock = partial(milliseconds, device=device)
    limits = roofs(device, 2**20, 128) if args.quick else roofs(device)
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4
    prefills, decodes = prefill_cases(args.quick), decode_cases(args.quick)
    found: list[Fraction] = []
    with progress("cases", len(prefills) + len(decodes)) as advance:
        for sizes in prefills:
            found += prefill_fractions(sizes, clock, device)
            advance(found[-1].case)
        for shape in decodes:
            case = decode(*shape, multiprocessors, device)
            found.append(decode_fraction(case, clock, limits.bytes_per_second))
            advance(case.name)
    record = {"roofs": asdict(limits), "goals": GOALS, "fractions": [asdict(one) for one in found]}
    BENCHMARK.publish(args, report(found, find_missing(), args.quick), record, describe_gpu())
    return 0 if args.quick or set(decide(found).values()) == {"held"} else 1


if __name__ == "__main__":
    sys.exit(main())
