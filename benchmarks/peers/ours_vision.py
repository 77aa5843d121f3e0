"""Ours: an artefact of a model of images, through a runtime that it is served with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from attendant.manifest import Manifest
from serving.runtime.create_runners import create_runners


def load(folder: str, threads: int, runtime: str = "auto") -> Callable[..., Any]:
    """The graph ``model`` of an artefact."""
    manifest = Manifest.read(Path(folder))
    runner = create_runners(Path(folder), manifest, threads, runtime)["model"]  # type: ignore[arg-type]

    images = np.random.default_rng(0).standard_normal((8, 3, 224, 224), dtype=np.float32)

    def run(batch: int, seed: int) -> list[float]:
        pixels = images[:batch] + np.float32(seed % 1000 / 1000)
        return runner.run({"pixels": pixels})["logits"].numpy()[0].tolist()

    return run
