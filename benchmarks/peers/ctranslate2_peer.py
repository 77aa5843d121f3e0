"""CTranslate2: a decoder, a translator or an encoder that its converter made from transformers' folder."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np

GREEDY = {"beam_size": 1, "sampling_topk": 1, "end_token": []}


def load(folder: str, threads: int, precision: str, kind: str) -> Callable[..., Any]:
    """On the CPU, computing in the given type (``float32``, ``int8``)."""
    settings = {"device": "cpu", "compute_type": precision, "intra_threads": threads, "inter_threads": 1}
    if kind == "encoder":
        encoder = ctranslate2.Encoder(folder, **settings)
        return lambda texts: np.array(encoder.forward_batch(texts).pooler_output)[0].tolist()
    vocabulary = "vocabulary.json" if kind == "decoder" else "shared_vocabulary.json"
    words: list[str] = json.loads((Path(folder) / vocabulary).read_text(encoding="utf-8"))
    numbers = {word: number for number, word in enumerate(words)}
    model = (ctranslate2.Generator if kind == "decoder" else ctranslate2.Translator)(folder, **settings)

    def hear() -> tuple[dict[int, float], Callable[[Any], bool]]:
        began_s, heard_s = time.perf_counter(), dict[int, float]()

        def callback(result: Any) -> bool:  # of each row of a step
            heard_s[result.step] = time.perf_counter() - began_s
            return False

        return heard_s, callback

    def generate(prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
        heard_s, callback = hear()
        results = model.generate_batch(
            [[words[token] for token in prompt] for prompt in prompts],
            max_length=new_tokens,
            min_length=new_tokens,
            include_prompt_in_result=False,
            callback=callback,
            **GREEDY,
        )
        return {"tokens": [result.sequences_ids[0] for result in results], "steps_s": list(heard_s.values())}

    def translate(prompts: list[list[int]], new_tokens: int, beams: int = 1) -> Any:
        heard_s, callback = hear()
        how = {"beam_size": beams, "end_token": []} if beams > 1 else {**GREEDY, "callback": callback}
        results = model.translate_batch(
            [[words[token] for token in prompt] for prompt in prompts],
            max_decoding_length=new_tokens,
            min_decoding_length=new_tokens,
            **how,
        )
        tokens = [[numbers[word] for word in result.hypotheses[0]] for result in results]
        return tokens if beams > 1 else {"tokens": tokens, "steps_s": list(heard_s.values())}

    return generate if kind == "decoder" else translate
