"""What Attendant's own operators for ONNX Runtime are worth: a decoder with them and with the runtime's own.

Of an artefact in 4 or 8 bits, the same graph in its two forms (docs/reference/targets.md) takes turns in one process,
whose sessions share their threads: steps of so many rows behind so many positions, and prompts of so many tokens, in
parts as they are served. A ratio is of pairs of one round each: above 1, ours is faster.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import ArtefactError, MachineError
from attendant.manifest import Manifest
from attendant.parameters import MAX_PREFILL_TOKENS
from benchmarks.harness.report import Benchmark, table
from benchmarks.harness.rounds import alternate, estimate, ratio
from serving.runtime.base import Runner
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.kernels.library import FORM, kernels
from serving.runtime.ort.runner import OrtRunner, RowByRow, share_threads

BENCHMARK = Benchmark("cpu-operators", "Decoders with operators of our own, and with ONNX Runtime's", __doc__)


def main() -> None:
    parser = BENCHMARK.parser()
    parser.add_argument("artefact", type=Path, help="a decoder in 4 or 8 bits")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8], help="of a step")
    parser.add_argument("--behind", type=int, nargs="+", default=[128, 1536], help="positions before a step")
    parser.add_argument("--prompts", type=int, nargs="+", default=[128, 1536], help="tokens")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60, help="of steps; of prompts a tenth of them")
    args = parser.parse_args()
    share_threads()
    decoders = both_forms(args.artefact, args.threads)
    rows, values = [], {}
    for count in args.rows:
        for behind in args.behind:
            found = alternate(step_calls(decoders, count, behind), args.rounds)
            rows.append([f"a step of {count} behind {behind}", *shown(found)])
            values[f"step, {count} rows, behind {behind}"] = found
    for length in args.prompts:
        found = alternate(prompt_calls(decoders, length), max(2, args.rounds // 10))
        rows.append([f"a prompt of {length}", *shown(found)])
        values[f"prompt of {length}"] = found
    header = ["", "ONNX Runtime's, ms", "ours, ms", "ratio"]
    BENCHMARK.publish(args, [table(header, rows)], {"seconds": values})


def both_forms(folder: Path, threads: int) -> dict[str, Runner]:
    """The decoder of an artefact in the two forms.

    Raises:
        ArtefactError: it has no form with our operators.
        MachineError: this machine cannot run them.
    """
    manifest = Manifest.read(folder)
    if not manifest.has_form("decoder", FORM):
        raise ArtefactError(f"a decoder in 4 or 8 bits in {folder}", "none", "export one with --precision int4-kv8")
    if kernels() is None:
        raise MachineError("a processor with AVX-512 and VNNI, and a C compiler", "one is missing", "use another")
    plain = folder / manifest.file_for("decoder", "ort-cpu")
    signature = manifest.signature_for("decoder", "ort-cpu")
    return {
        "theirs": RowByRow(OrtRunner(plain, signature, threads)),
        "ours": create_runners(folder, manifest, threads, "onnxruntime")["decoder"],
    }


def step_calls(decoders: Mapping[str, Runner], rows: int, behind: int) -> dict[str, Any]:
    tokens = random_tokens(decoders, rows, 1)
    each = {name: CachedDecoder(runner, rows) for name, runner in decoders.items()}
    return {name: partial(decoder.step, tokens, np.full(rows, behind)) for name, decoder in each.items()}


def prompt_calls(decoders: Mapping[str, Runner], length: int) -> dict[str, Any]:
    tokens = random_tokens(decoders, 1, length)

    def read(decoder: CachedDecoder) -> None:
        for begin in range(0, length, MAX_PREFILL_TOKENS):
            decoder.step(tokens[:, begin : begin + MAX_PREFILL_TOKENS], np.array([begin]))

    return {name: partial(read, CachedDecoder(runner, 1)) for name, runner in decoders.items()}


def random_tokens(decoders: Mapping[str, Runner], rows: int, steps: int) -> np.ndarray[Any, Any]:
    vocabulary = decoders["ours"].signature.outputs[0].axes[-1]
    assert isinstance(vocabulary, int)
    return np.random.default_rng(0).integers(vocabulary, size=(rows, steps))


def shown(found: Mapping[str, list[float]]) -> list[str]:
    times = [estimate([1e3 * seconds for seconds in found[name]]).show() for name in ("theirs", "ours")]
    return [*times, ratio(found["theirs"], found["ours"]).show()]


if __name__ == "__main__":
    main()
