"""transformers: models as they are published, texts by generate(); also optimum's translators of OpenVINO's graphs."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.peers.shapes import random_pixels


class StepClock(transformers.generation.streamers.BaseStreamer):
    """Hears of the prompt, and then of each step's tokens: when, in seconds from when it was made."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self.heard_s: list[float] = []

    def put(self, value: Any) -> None:
        self.heard_s.append(time.perf_counter() - self._began_s)

    def end(self) -> None:
        """The last tokens came before."""


def load(
    folder: str, threads: int, precision: str, kind: str, openvino: bool = False, compiled: bool = False
) -> Callable[..., Any]:
    """A model in the given type (``float32``, ``bfloat16``); with ``openvino`` its graphs run there.

    Compiled means by torch.compile, with its weights as constants, for each shape of a batch anew.
    """
    torch.set_num_threads(threads)
    if openvino:
        from optimum.intel import OVModelForSeq2SeqLM

        settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision}
        model: Any = OVModelForSeq2SeqLM.from_pretrained(folder, ov_config=settings)
    else:
        dtype = getattr(torch, precision)
        (name,) = json.loads((Path(folder) / "config.json").read_text())["architectures"]
        model = getattr(transformers, name).from_pretrained(folder, dtype=dtype).eval()
    if compiled:
        torch._inductor.config.freezing = True
        model = torch.compile(model, dynamic=False)
    if kind == "vision":

        def classify(**images: Any) -> list[float]:
            with torch.no_grad():
                values: list[float] = (
                    model(torch.from_numpy(random_pixels(**images)).to(dtype)).logits[0].float().tolist()
                )
                return values

        return classify
    if kind == "encoder":

        def embed(texts: list[list[int]]) -> list[float]:
            ids = torch.tensor(texts)
            with torch.no_grad():
                pooled: list[float] = model(ids, attention_mask=torch.ones_like(ids)).pooler_output[0].float().tolist()
                return pooled

        return embed
    if kind == "decoder":
        special = {"pad_token_id": 0, "bos_token_id": 1}
    else:
        start = model.config.decoder_start_token_id
        special = {"pad_token_id": start, "decoder_start_token_id": start}
    model.generation_config = transformers.GenerationConfig(do_sample=False, eos_token_id=None, **special)

    def generate(prompts: list[list[int]], new_tokens: int, beams: int = 1) -> Any:
        clock, ids = StepClock(), torch.tensor(prompts)
        how = {"num_beams": beams, "streamer": None if beams > 1 else clock}  # which hears nothing of beams
        lengths = {"max_new_tokens": new_tokens, "min_new_tokens": new_tokens}
        with torch.inference_mode():
            tokens = model.generate(ids, attention_mask=torch.ones_like(ids), **lengths, **how)
        answers = tokens[:, ids.shape[1] if kind == "decoder" else 1 :].tolist()
        return answers if beams > 1 else {"tokens": answers, "steps_s": clock.heard_s[1:]}

    return generate
