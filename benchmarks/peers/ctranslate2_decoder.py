"""CTranslate2: a decoder that its converter made from transformers' folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2


def load(folder: str, threads: int, precision: str) -> Callable[..., Any]:
    """A generator on the CPU, computing in the given type (``float32``, ``int8``)."""
    generator = ctranslate2.Generator(
        folder, device="cpu", compute_type=precision, intra_threads=threads, inter_threads=1
    )
    words = _words(Path(folder))

    def run(prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
        results = generator.generate_batch(
            [[words[token] for token in prompt] for prompt in prompts],
            max_length=new_tokens,
            min_length=new_tokens,
            beam_size=1,
            sampling_topk=1,
            include_prompt_in_result=False,
            end_token=[],
        )
        return [result.sequences_ids[0] for result in results]

    return run


def _words(folder: Path) -> list[str]:
    import json

    words: list[str] = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
    return words
