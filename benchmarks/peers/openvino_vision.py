"""OpenVINO: its own conversion of transformers' model (not our graph), in the precision that it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino


def load(folder: str, threads: int, precision: str) -> Callable[..., Any]:
    """A compiled model on the CPU; ``precision`` is of what is not quantised."""
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision}
    model = openvino.Core().compile_model(Path(folder) / "model.xml", "CPU", settings)

    images = np.random.default_rng(0).standard_normal((8, 3, 224, 224), dtype=np.float32)

    def run(batch: int, seed: int) -> list[float]:
        pixels = images[:batch] + np.float32(seed % 1000 / 1000)
        return model(pixels, share_inputs=True, share_outputs=True)[0][0].tolist()

    return run
