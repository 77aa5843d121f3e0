"""OpenVINO GenAI: its LLMPipeline over optimum's stateful graph, in the precision that it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as og


def load(folder: str, threads: int, precision: str) -> Callable[..., Any]:
    """A pipeline on the CPU.

    Args:
        folder: optimum's export.
        threads: for one inference.
        precision: of what is not quantised (``f32``, ``bf16``): the plugin chooses bf16 itself where it may.
    """
    pipeline = og.LLMPipeline(folder, "CPU", INFERENCE_NUM_THREADS=threads, INFERENCE_PRECISION_HINT=precision)

    def run(prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
        config = og.GenerationConfig(
            max_new_tokens=new_tokens, min_new_tokens=new_tokens, ignore_eos=True, do_sample=False
        )
        ids = np.array(prompts, dtype=np.int64)
        inputs = og.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        return [list(row) for row in pipeline.generate(inputs, config).tokens]

    return run
