"""Ours: an artefact that ``attendant export onnx`` wrote, on a runtime that it is served with; texts decoded greedily.

Legend: B batch, T prompt.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attendant.manifest import Manifest
from attendant.parameters import Runtime
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import PREFILL
from benchmarks.peers.shapes import random_pixels
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import TranslationModel
from serving.runtime.base import Array, Runner
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.runner import share_threads


def load(folder: str, threads: int, kind: str, runtime: Runtime = "auto") -> Callable[..., Any]:
    manifest = Manifest.read(Path(folder))
    share_threads()
    runners = create_runners(Path(folder), manifest, threads, runtime)
    if kind == "vision":
        return lambda **images: runners["model"].run({"pixels": random_pixels(**images)})["logits"].numpy()[0].tolist()
    if kind == "encoder":

        def embed(texts: list[list[int]]) -> list[float]:
            ids = np.array(texts, dtype=np.int64)
            inputs = {"token_ids": ids, "mask": np.ones_like(ids, dtype=bool), "token_types": np.zeros_like(ids)}
            pooled: list[float] = runners["model"].run(inputs)["pooled"].numpy()[0].tolist()
            return pooled

        return embed
    engines: dict[int, TranslationModel] = {}
    decoders: dict[int, CachedDecoder] = {}  # a server keeps its caches: each prompt begins at the first position again

    def generate(prompts: list[list[int]], new_tokens: int, beams: int = 1) -> Any:
        began_s = time.perf_counter()
        if beams > 1:
            slots = beams * len(prompts)
            if slots not in engines:
                settings = EngineSettings(max_num_seqs=slots)
                engines[slots] = TranslationModel(Path(folder), manifest, threads, runtime, settings=settings)
            return translate(engines[slots], prompts, new_tokens, beams)
        ids_BT, rows = np.array(prompts, dtype=np.int64), len(prompts)
        if "encoder" not in runners:
            if rows not in decoders:
                decoders[rows] = CachedDecoder(runners["decoder"], rows)
            return decode(began_s, decoders[rows], ids_BT, new_tokens, runners.get(PREFILL))
        source = {"source_ids": ids_BT, "source_mask": np.ones_like(ids_BT, dtype=bool)}
        encoded = runners["encoder"].run(dict(source))
        first_B1 = np.full((rows, 1), manifest.details["start_token"])
        return decode(began_s, CachedDecoder(runners["decoder"], rows, {**source, **encoded}), first_B1, new_tokens)

    return generate


def translate(model: TranslationModel, prompts: list[list[int]], new_tokens: int, beams: int) -> list[list[int]]:
    """By the engine, the whole batch at once: each answer's best beam."""
    outputs: list[list[Any]] = [[] for _ in prompts]
    options = SamplingParams(max_tokens=new_tokens, min_tokens=new_tokens, beam_width=beams)
    for prompt, sink in zip(prompts, outputs, strict=True):
        model.engine.submit(model.request(prompt, options), sink.append)
    while not model.engine.is_idle:
        model.engine.step()
    return [[int(token) for output in answer for token in output.token_ids] for answer in outputs]


def decode(
    began_s: float, decoder: CachedDecoder, ids_BT: Array, new_tokens: int, prefill: Runner | None = None
) -> dict[str, Any]:
    reader = decoder if prefill is None else CachedDecoder.over(prefill, decoder.caches, {})
    start_B, most = np.zeros(len(ids_BT), dtype=np.int64), EngineSettings().max_prefill_tokens
    tokens, steps_s = [], []
    left = most if prefill is None else 1  # to the decoder, which scores the last of them
    while ids_BT.shape[1] > left:  # as a server reads a long prompt
        width = min(most, ids_BT.shape[1] - (prefill is not None))
        reader.step(ids_BT[:, :width], start_B, np.zeros((len(ids_BT), 1), dtype=np.int64))
        ids_BT, start_B = ids_BT[:, width:], start_B + width
    for _ in range(new_tokens):
        last_B1 = np.full((len(ids_BT), 1), ids_BT.shape[1] - 1)
        logits = decoder.step(ids_BT, start_B, last_B1)["logits"]
        start_B = start_B + ids_BT.shape[1]
        ids_BT = logits[:, -1].argmax(-1)[:, None]
        tokens.append(ids_BT[:, 0])
        steps_s.append(time.perf_counter() - began_s)
    return {"tokens": np.stack(tokens, axis=1).tolist(), "steps_s": steps_s}
