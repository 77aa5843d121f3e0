"""What a language model of some size costs on this machine: export, memory behind Triton, first token, speed.

A preset has random weights and no tokenizer, and costs what a trained model of its shape does; prompts are token ids.

    export        seconds of `attendant export onnx`, from nothing
    ready         seconds from the start of the server until the model has answered
    memory        of all processes of the server together, proportional set size, after the answers
    first token   median seconds from a request to its first token, one request at a time
    tokens/s      median over answers of the tokens after the first, one request at a time
"""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from benchmarks.harness.report import Benchmark, scratch_folder, table
from benchmarks.harness.servers import triton_over
from clients.generate import Generator
from clients.triton_client import TritonClient
from serving.engine.settings import EngineSettings
from serving.triton.server.group import living_members

BENCHMARK = Benchmark("served-size", "What a language model of some size costs", __doc__)
HEADS = ("precision", "threads", "export s", "artefact GB", "ready s", "memory GB", "first token ms", "tokens/s")


def export(name: str, precision: str, folder: Path) -> float:
    """Export a model from nothing, in a process of its own; seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    began_s = perf_counter()
    command = [sys.executable, "-m", "attendant", "export", "onnx", name, "--precision", precision]
    subprocess.run([*command, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - began_s


def memory_bytes(group: int) -> int:
    """The proportional set sizes of a process group together."""
    rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in living_members(group))
    return sum(1024 * int(rollup.partition("\nPss:")[2].split()[0]) for rollup in rollups)


async def ask(address: str, manifest: Manifest, prompt_tokens: int, tokens: int, answers: int) -> tuple[float, float]:
    """Ask for some answers in turn; seconds to the first token and tokens a second, medians."""
    firsts, rates, random = [], [], np.random.default_rng(0)
    async with TritonClient(address, timeout_s=300.0) as client:
        generator = await Generator.find(client, manifest.name)
        for _ in range(answers):
            prompt = random.integers(manifest.input_vocabulary or 1, size=prompt_tokens).tolist()
            began_s, first_s, count = perf_counter(), 0.0, 0
            async for delta in generator.stream(prompt, SamplingParams(max_tokens=tokens, ignore_eos=True)):
                first_s, count = first_s or perf_counter(), count + len(delta.token_ids)
            assert count == tokens
            firsts.append(first_s - began_s)
            rates.append((tokens - 1) / (perf_counter() - first_s))
    return median(firsts), median(rates)


def measure(name: str, precision: str, threads: int, sizes: tuple[int, int, int], scratch: Path) -> dict[str, float]:
    """Export, serve and ask one model."""
    artefact = scratch / f"{Path(name).name}-{precision}"
    export_s = export(name, precision, artefact)
    size = sum(path.stat().st_size for path in artefact.iterdir())
    manifest, began_s = Manifest.read(artefact), perf_counter()
    with triton_over({manifest.name: artefact}, scratch, EngineSettings(max_num_seqs=4), threads) as server:
        ready_s = perf_counter() - began_s
        first_s, rate = asyncio.run(ask(server.endpoints.grpc, manifest, *sizes))
        assert server.group is not None
        memory = memory_bytes(server.group)
    return {
        "export_s": export_s,
        "artefact_bytes": size,
        "ready_s": ready_s,
        "memory_bytes": memory,
        "first_token_s": first_s,
        "tokens_per_s": rate,
    }


def main() -> None:
    parser = BENCHMARK.parser(scratch=True)
    parser.add_argument("--model", default="tinyllama-1.1b", help="a preset, or a checkpoint folder")
    parser.add_argument("--precision", default="int4", help="as attendant export onnx has it")
    parser.add_argument("--threads", type=int, default=2, help="of a run of the graph")
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--answers", type=int, default=3)
    args = parser.parse_args()
    sizes = args.prompt_tokens, args.tokens, args.answers
    with scratch_folder(args) as scratch:
        found = measure(args.model, args.precision, args.threads, sizes, scratch)
    row = [
        *(args.precision, args.threads, f"{found['export_s']:.0f}", f"{found['artefact_bytes'] / 1e9:.2f}"),
        *(f"{found['ready_s']:.0f}", f"{found['memory_bytes'] / 1e9:.2f}", f"{1e3 * found['first_token_s']:.0f}"),
        f"{found['tokens_per_s']:.1f}",
    ]
    said = f"{args.model}: prompts of {sizes[0]} tokens, {sizes[2]} answers of {sizes[1]} tokens, in turn.\n"
    BENCHMARK.publish(args, [said, table(HEADS, [row])], {args.model: found})


if __name__ == "__main__":
    main()
