"""What each layer, and an explanation, adds to a request: the engine of this process, Triton over gRPC, the gateway.

All get the same requests in turns. Triton is called by our gRPC client, the gateway by a bare HTTP client, so that a
usual client's own half a millisecond is not counted. One number a round:

    added         seconds until the last answer, less those of the layer below
    each further  of a stream, what is added less what is added to requests of one token, over the responses after the
                  first (tokens that come while others are sent leave together), or over the gateway's tokens
    explained     over the plain request of the same layer; the gateway's also as a PNG, and by occlusion, which
                  runs the plain graph once for each part of the image

Requests at once share what is left of the processors: in process their seconds are those of all of them, stepped by one
thread.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from attendant.errors import AttendantError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors
from attendant.tensor_names import EXPLAINED, PIXELS, STREAM
from benchmarks.harness.bare_http import BareClient
from benchmarks.harness.machine import ROOT
from benchmarks.harness.report import Benchmark, scratch_folder, table
from benchmarks.harness.rounds import NOTE, Estimate, Sample, alternate_in_blocks, counted_values, estimate, ratio
from benchmarks.harness.servers import export_models, gateway_before, triton_over
from clients.classify import Classifier
from clients.generate import Generator
from clients.images import file_pixels
from clients.text import TextModel
from clients.translate import Translator
from clients.triton_client import TritonClient
from serving.capacity.profiling.inputs import load_model
from serving.engine.request_output import RequestOutput
from serving.engine.settings import EngineSettings
from serving.runtime.create_runners import create_runners

BENCHMARK = Benchmark("overhead", "What each layer adds", __doc__)
IMAGE = ROOT / "docs/examples/three.png"
CLASSIFIERS = ("digits-vit", "digits-swin")
TEXTS = {"stdlib-lm": "Open a file and", "dates-transformer": "3rd of march 1997", "dates-gru": "3rd of march 1997"}
TOKENS = {"stdlib-lm": 64, "dates-transformer": 12, "dates-gru": 12}
"""Of a long answer; it goes on after an end token, so that each has as many."""
CONCURRENCY = (1, 8)
SETTINGS = EngineSettings(prefix_cache_bytes=0)
TARGETS_MS = {"Triton": (1.0, 0.35), "gateway": (1.5, 0.3)}
"""What a layer may add to a request with one response, one at a time, and to each further response of a stream."""
ROUNDS = 10
"""Of all cases in a block."""
Send = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """So many requests at once, of answers of so many tokens, or as the model ends them if 0; streamed or whole."""

    model: str
    tokens: int = 0
    stream: bool = False
    concurrency: int = 1
    explained: str = ""

    @property
    def name(self) -> str:
        sizes = f"{'streamed' if self.stream else 'whole'}, {self.tokens} tokens, {self.concurrency} at once"
        return ", ".join(filter(None, [self.model, sizes if self.tokens else "one answer", self.explained]))

    @property
    def options(self) -> SamplingParams:
        if not self.tokens:
            return SamplingParams(explain=bool(self.explained))
        return SamplingParams(max_tokens=self.tokens, ignore_eos=True)


Found = dict[Case, dict[str, list[Sample]]]


def main() -> None:
    parser = BENCHMARK.parser(scratch=True, patience_s=10.0)
    parser.add_argument("--models", nargs="+", choices=[*TEXTS, *CLASSIFIERS], default=[*TEXTS, *CLASSIFIERS])
    parser.add_argument("--blocks", type=int, default=20, help=f"of {ROUNDS} rounds of every case")
    args = parser.parse_args()
    found: Found = {}
    with scratch_folder(args) as scratch:
        explained = [name for name in args.models if name != "stdlib-lm"]
        artefacts = export_models(["stdlib-lm"] if "stdlib-lm" in args.models else [], scratch / "artefacts")
        artefacts |= export_models(explained, scratch / "artefacts", explain=True)
        with (
            triton_over(artefacts, scratch, SETTINGS) as server,
            gateway_before(server.endpoints.grpc, probe_s=3600) as (gateway, port),
        ):
            for folder in artefacts.values():
                groups = (server.group, gateway.pid)
                measuring = measure(folder, server.endpoints.grpc, port, groups, args.blocks, args.patience)
                found |= asyncio.run(measuring)
    BENCHMARK.publish(args, report(found), {"cases": {case.name: layers for case, layers in found.items()}})


async def measure(
    folder: Path, triton: str, port: int, groups: tuple[int | None, ...], blocks: int, patience_s: float
) -> Found:
    """Case → layer → samples, each with how many responses came."""
    manifest = Manifest.read(folder)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(TritonClient(triton))
        connections = [await stack.enter_async_context(BareClient(port)) for _ in range(max(CONCURRENCY))]
        make = classifier_senders if manifest.task == "classify" else text_senders
        samples = await alternate_in_blocks(
            await make(folder, manifest, client, connections), blocks, ROUNDS, patience_s, groups
        )
    found: Found = {}
    for (case, layer), values in samples.items():
        found.setdefault(case, {})[layer] = values
    return found


def raise_error(output: RequestOutput | AttendantError) -> None:
    """The sink of a request in process."""
    if isinstance(output, AttendantError):
        raise output


async def text_senders(
    folder: Path, manifest: Manifest, client: TritonClient, connections: list[BareClient]
) -> dict[tuple[Case, str], Send]:
    name, text = manifest.name, TEXTS[manifest.name]
    model, is_translator = load_model(folder, SETTINGS), manifest.task == "translate"
    finder: type[TextModel] = Translator if is_translator else Generator
    served = await finder.find(client, name)
    senders: dict[tuple[Case, str], Send] = {}

    async def send_in_process(case: Case) -> int:
        for _ in range(case.concurrency):
            model.engine.submit(model.request(text, case.options), raise_error)
        while not model.engine.is_idle:
            model.engine.step()
        return case.tokens * case.concurrency

    async def send_to_triton(case: Case) -> int:
        tensors = {**prompt_tensors(text), STREAM: np.array([[case.stream]])}

        async def receive() -> int:
            return len([one async for one in served.stream_deltas(tensors, case.options)])

        return sum(await asyncio.gather(*(receive() for _ in range(case.concurrency))))

    async def send_to_gateway(case: Case) -> int:
        options = {"max_tokens": case.tokens, "temperature": 0, "ignore_eos": True, "stream": case.stream}
        body, used = {"model": name, "prompt": text, **options}, connections[: case.concurrency]
        if case.stream:
            return sum(await asyncio.gather(*(one.events("/v1/completions", body) for one in used)))
        return len(await asyncio.gather(*(one.post("/v1/completions", body) for one in used)))

    for concurrency in CONCURRENCY:
        for stream in (False, True):
            for tokens in (1, TOKENS[name]):
                case = Case(model=name, tokens=tokens, stream=stream, concurrency=concurrency)
                senders[case, "in process"] = partial(send_in_process, case)
                senders[case, "Triton"] = partial(send_to_triton, case)
                if not is_translator:  # translations have a route without these options
                    senders[case, "gateway"] = partial(send_to_gateway, case)
    if is_translator:
        plain, body = Case(model=name), {"model": name, "input": text}
        for case in (plain, replace(plain, explained="explained")):
            senders[case, "in process"] = partial(send_in_process, case)
            senders[case, "Triton"] = partial(send_to_triton, case)
        senders[plain, "gateway"] = lambda: connections[0].post("/v1/translate", body)
        senders |= explain_by_gateway(plain, body, connections[0])
    return senders


async def classifier_senders(
    folder: Path, manifest: Manifest, client: TritonClient, connections: list[BareClient]
) -> dict[tuple[Case, str], Send]:
    classifier, runners = await Classifier.find(client, manifest.name), create_runners(folder, manifest)
    pixels = file_pixels(classifier.model, IMAGE)[None]
    plain, explained = Case(model=manifest.name), Case(model=manifest.name, explained="explained")
    body = {"model": manifest.name, "image": base64.b64encode(IMAGE.read_bytes()).decode()}

    async def run(graph: str) -> None:
        runners[graph].run({PIXELS: pixels})

    return {
        (plain, "in process"): partial(run, "model"),
        (plain, "Triton"): partial(classifier.classify_file, IMAGE, 5),
        (plain, "gateway"): lambda: connections[0].post("/v1/classify", body),
        (explained, "in process"): partial(run, EXPLAINED),
        (explained, "Triton"): partial(classifier.explain_file, IMAGE),
        **explain_by_gateway(plain, body, connections[0]),
        (replace(plain, explained="occlusion"), "gateway"): lambda: connections[0].post(
            "/v1/explain", {**body, "kind": "occlusion"}
        ),
    }


def explain_by_gateway(plain: Case, body: dict[str, Any], http: BareClient) -> dict[tuple[Case, str], Send]:
    return {
        (replace(plain, explained="explained"), "gateway"): lambda: http.post("/v1/explain", body),
        (replace(plain, explained="PNG"), "gateway"): lambda: http.post("/v1/explain", {**body, "format": "png"}),
    }


def report(found: Found) -> Iterator[str]:
    yield f"Medians and 95 % intervals of rounds in turns. {NOTE}"
    limits = (f"{layer} {whole:g} and {further:g}" for layer, (whole, further) in TARGETS_MS.items())
    yield f"Targets in ms, of a request and of each further response of a stream, one at a time: {', '.join(limits)}.\n"
    rows, explained = [], []
    for case, layers in found.items():
        for below, layer in pairwise(layers):
            added, target = estimate(added_ms(layers, below, layer)), ""
            each = further_ms(found, case, below, layer)
            if each is not None:
                target = "met" if each.value <= TARGETS_MS[layer][1] else "missed"
            elif case.concurrency == 1 and not case.stream and not case.explained:
                target = "met" if added.value <= TARGETS_MS[layer][0] else "missed"
            values, mark = counted_values(layers[layer])
            lower, upper = (1e3 * median(counted_values(layers[one])[0]) for one in (below, layer))
            names = [case.name, f"{layer} over {below}", f"{lower:.2f}", f"{upper:.2f}", f"{added.show()}{mark}"]
            rows.append([*names, each.show(".3f") if each else "", target, len(values)])
        plain = found[replace(case, explained="")]
        for layer, samples in layers.items() if case.explained else ():
            over = ratio([one.value for one in samples], [one.value for one in plain[layer]])
            explained.append([case.name, layer, f"{1e3 * median(one.value for one in samples):.2f}", over.show()])
    heads = ["case", "layer", "below, ms", "ms", "added, ms", "each further response, ms", "target", "rounds"]
    yield table(heads, rows)
    if explained:
        yield "\n" + table(["case", "layer", "ms", "times the plain request"], explained)


def further_ms(found: Found, case: Case, below: str, layer: str) -> Estimate | None:
    """What each further response of a stream, or token through the gateway, adds; None of what has no further ones."""
    if not case.stream or case.tokens == 1:
        return None
    first = found[replace(case, tokens=1)]
    more = np.subtract(added_ms(found[case], below, layer), added_ms(first, below, layer))
    responses = np.mean([one.returned or 0 for one in found[case][layer]])
    parts = case.tokens * case.concurrency if layer == "gateway" else float(responses)
    return estimate((more / (parts - case.concurrency)).tolist())


def added_ms(layers: dict[str, list[Sample]], below: str, layer: str) -> list[float]:
    """In each round that counts."""
    pairs = zip(layers[layer], layers[below], strict=True)
    return list(counted_values([(1e3 * (one.value - other.value), one.others) for one, other in pairs])[0])


if __name__ == "__main__":
    main()
