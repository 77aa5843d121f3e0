"""transformers: an encoder and a decoder as they are published, by generate(); also optimum's of OpenVINO's graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers


def load(folder: str, threads: int, precision: str, openvino: bool = False) -> Callable[..., Any]:
    """A translator in the given type; with ``openvino`` its graphs run there."""
    torch.set_num_threads(threads)
    model = _openvino_model(folder, threads, precision) if openvino else _torch_model(folder, precision)
    start = model.config.decoder_start_token_id
    model.generation_config = transformers.GenerationConfig(
        do_sample=False, num_beams=1, eos_token_id=None, pad_token_id=start, decoder_start_token_id=start
    )

    def run(prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
        ids = torch.tensor(prompts)
        mask = torch.ones_like(ids)
        with torch.inference_mode():
            made = model.generate(ids, attention_mask=mask, max_new_tokens=new_tokens, min_new_tokens=new_tokens)
        return made[:, 1:].tolist()

    return run


def _torch_model(folder: str, precision: str) -> Any:
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=getattr(torch, precision)).eval()


def _openvino_model(folder: str, threads: int, precision: str) -> Any:
    from optimum.intel import OVModelForSeq2SeqLM

    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision}
    return OVModelForSeq2SeqLM.from_pretrained(folder, ov_config=settings)
