"""transformers: the model as it is published, by its own generate()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers


def load(folder: str, threads: int, precision: str) -> Callable[..., Any]:
    """A causal language model in the given type (``float32``, ``bfloat16``)."""
    torch.set_num_threads(threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, precision)).eval()
    settings = transformers.GenerationConfig(do_sample=False, eos_token_id=None, pad_token_id=0, bos_token_id=1)
    model.generation_config = settings

    def run(prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
        ids = torch.tensor(prompts)
        with torch.inference_mode():
            made = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, min_new_tokens=new_tokens
            )
        return made[:, ids.shape[1] :].tolist()

    return run
