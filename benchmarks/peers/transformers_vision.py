"""transformers: an image classifier as it is published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers


def load(folder: str, threads: int, precision: str) -> Callable[..., Any]:
    """A classifier in the given type (``float32``, ``bfloat16``)."""
    torch.set_num_threads(threads)
    dtype = getattr(torch, precision)
    model = transformers.AutoModelForImageClassification.from_pretrained(folder, dtype=dtype).eval()

    images = np.random.default_rng(0).standard_normal((8, 3, 224, 224), dtype=np.float32)

    def run(batch: int, seed: int) -> list[float]:
        pixels = images[:batch] + np.float32(seed % 1000 / 1000)
        with torch.inference_mode():
            return model(torch.from_numpy(pixels).to(dtype)).logits[0].float().tolist()

    return run
