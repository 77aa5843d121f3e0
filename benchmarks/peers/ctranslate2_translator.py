"""CTranslate2: a translator that its converter made from transformers' folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2


def load(folder: str, threads: int, precision: str) -> Callable[..., Any]:
    """A translator on the CPU, computing in the given type (``float32``, ``int8``)."""
    model = ctranslate2.Translator(folder, device="cpu", compute_type=precision, intra_threads=threads, inter_threads=1)
    words = json.loads((Path(folder) / "shared_vocabulary.json").read_text(encoding="utf-8"))
    numbers = {word: number for number, word in enumerate(words)}

    def run(prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
        results = model.translate_batch(
            [[words[token] for token in prompt] for prompt in prompts],
            max_decoding_length=new_tokens,
            min_decoding_length=new_tokens,
            beam_size=1,
            sampling_topk=1,
            end_token=[],
        )
        return [[numbers[word] for word in result.hypotheses[0]] for result in results]

    return run
