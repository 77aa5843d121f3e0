"""OpenVINO: GenAI's LLMPipeline over optimum's stateful graph; its own conversion of encoders and image models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino

from benchmarks.peers.shapes import random_pixels


def load(folder: str, threads: int, precision: str, kind: str) -> Callable[..., Any]:
    """Precision is that of what is not quantised (``f32``, ``bf16``): the plugin chooses bf16 itself where it may."""
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision}
    if kind in {"encoder", "vision"}:
        model = openvino.Core().compile_model(Path(folder) / "model.xml", "CPU", settings)
        if kind == "encoder":

            def embed(texts: list[list[int]]) -> list[float]:
                ids = np.array(texts, dtype=np.int64)
                pooled: list[float] = model([ids, np.ones_like(ids)], share_outputs=True)[0][0].tolist()
                return pooled

            return embed
        return lambda **images: model(random_pixels(**images), share_inputs=True, share_outputs=True)[0][0].tolist()
    import openvino_genai

    pipeline = openvino_genai.LLMPipeline(folder, "CPU", **settings)

    def generate(prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
        config = openvino_genai.GenerationConfig(
            max_new_tokens=new_tokens, min_new_tokens=new_tokens, ignore_eos=True, do_sample=False
        )
        ids = np.array(prompts, dtype=np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        answer = pipeline.generate(inputs, config)
        times = answer.perf_metrics.raw_metrics  # in microseconds; and by a clock in milliseconds
        first_ms, *later_ms = times.m_new_token_times
        steps_s = [times.m_times_to_first_token[0] / 1e6 + (one - first_ms) / 1e3 for one in (first_ms, *later_ms)]
        return {"tokens": [list(row) for row in answer.tokens], "steps_s": steps_s}

    return generate
