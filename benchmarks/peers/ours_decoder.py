"""Ours: an artefact that ``attendant export onnx`` wrote, through the runtime that it is served with, decoded greedily.

Legend: B batch, T prompt, S source.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from attendant.manifest import Manifest
from serving.runtime.base import Array
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners


def load(folder: str, threads: int, runtime: str = "auto") -> Callable[..., Any]:
    """A decoder, or an encoder and a decoder, of an artefact."""
    manifest = Manifest.read(Path(folder))
    runners = create_runners(Path(folder), manifest, threads, runtime)  # type: ignore[arg-type]
    decoders: dict[int, CachedDecoder] = {}  # a server keeps its caches: each prompt begins at the first position again

    def run(prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
        ids_BT, rows = np.array(prompts, dtype=np.int64), len(prompts)
        if "encoder" not in runners:
            if rows not in decoders:
                decoders[rows] = CachedDecoder(runners["decoder"], rows)
            return _greedy(decoders[rows], ids_BT, new_tokens)
        source = {"source_ids": ids_BT, "source_mask": np.ones_like(ids_BT, dtype=bool)}
        memories = runners["encoder"].run(dict(source))
        first_B1 = np.full((rows, 1), manifest.details["start_token"])
        return _greedy(CachedDecoder(runners["decoder"], rows, {**source, **memories}), first_B1, new_tokens)

    return run


def _greedy(decoder: CachedDecoder, ids_BT: Array, new_tokens: int) -> list[list[int]]:
    start_B, made = np.zeros(len(ids_BT), dtype=np.int64), []
    for _ in range(new_tokens):
        last_B1 = np.full((len(ids_BT), 1), ids_BT.shape[1] - 1)
        logits = decoder.step(ids_BT, start_B, last_B1)["logits"]
        start_B = start_B + ids_BT.shape[1]
        ids_BT = logits[:, -1].argmax(-1)[:, None]
        made.append(ids_BT[:, 0])
    return np.stack(made, axis=1).tolist()
