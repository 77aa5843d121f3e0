"""onnxruntime-genai: the graph that its builder makes, and its own generation loop."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime_genai as og


def load(folder: str, threads: int) -> Callable[..., Any]:
    """A model on the CPU; the cache is shared between steps, as the builder's configuration has it."""
    config = og.Config(folder)
    config.clear_providers()
    config.overlay(f'{{"model": {{"decoder": {{"session_options": {{"intra_op_num_threads": {threads}}}}}}}}}')
    model = og.Model(config)

    def run(prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
        began_s, steps_s = time.perf_counter(), []
        length = len(prompts[0]) + new_tokens
        params = og.GeneratorParams(model)
        params.set_search_options(
            do_sample=False,
            batch_size=len(prompts),
            max_length=length,
            min_length=length,
            past_present_share_buffer=True,
        )
        generator = og.Generator(model, params)
        generator.append_tokens(np.array(prompts, dtype=np.int32))
        for _ in range(new_tokens):
            generator.generate_next_token()
            steps_s.append(time.perf_counter() - began_s)
        tokens = [generator.get_sequence(row)[-new_tokens:].tolist() for row in range(len(prompts))]
        return {"tokens": tokens, "steps_s": steps_s}

    return run
