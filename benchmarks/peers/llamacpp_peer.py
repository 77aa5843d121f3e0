"""llama.cpp by its Python package: a decoder that benchmarks/peers/export_gguf.py wrote.

Legend: B batch, T prompt.
"""

import time
from collections.abc import Callable
from typing import Any

import llama_cpp as lib
import numpy as np

AT_ONCE = 512
"""Tokens that are computed at once, as by default."""


def load(folder: str, threads: int) -> Callable[..., Any]:
    """A model on the CPU; keys and values in 16 bits, as by default; a batch's answers are sequences."""
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(f"{folder}/model.gguf".encode(), lib.llama_model_default_params())
    vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    contexts: dict[tuple[int, int], Any] = {}

    def context_for(rows: int, length: int) -> Any:
        length = -(-length // 256) * 256
        if (rows, length) not in contexts:
            settings = lib.llama_context_default_params()
            settings.n_ctx, settings.n_seq_max = rows * length, rows
            settings.n_batch = settings.n_ubatch = AT_ONCE
            settings.n_threads = settings.n_threads_batch = threads
            contexts[rows, length] = lib.llama_init_from_model(model, settings)
        lib.llama_memory_clear(lib.llama_get_memory(contexts[rows, length]), False)
        return contexts[rows, length]

    def generate(prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
        began_s, steps_s, tokens = time.perf_counter(), [], []
        ids_BT, rows, start = np.array(prompts), len(prompts), 0
        context = context_for(rows, ids_BT.shape[1] + new_tokens)
        batch = lib.llama_batch_init(AT_ONCE, 0, 1)
        for _ in range(new_tokens):
            best_B = compute(context, batch, ids_BT, start)
            start += ids_BT.shape[1]
            ids_BT = best_B[:, None]
            tokens.append(best_B)
            steps_s.append(time.perf_counter() - began_s)
        lib.llama_batch_free(batch)
        return {"tokens": np.stack(tokens, axis=1).tolist(), "steps_s": steps_s}

    def compute(context: Any, batch: Any, ids_BT: Any, start: int) -> Any:
        rows, length = ids_BT.shape
        best_B = np.zeros(rows, dtype=np.int64)
        places = [(row, position) for row in range(rows) for position in range(length)]
        for begin in range(0, len(places), AT_ONCE):
            part = places[begin : begin + AT_ONCE]
            batch.n_tokens = len(part)
            for index, (row, position) in enumerate(part):
                batch.token[index], batch.pos[index] = int(ids_BT[row, position]), start + position
                batch.n_seq_id[index], batch.seq_id[index][0] = 1, row
                batch.logits[index] = position == length - 1
            if lib.llama_decode(context, batch):
                raise RuntimeError("llama_decode failed")
            for index, (row, position) in enumerate(part):
                if position == length - 1:
                    logits = lib.llama_get_logits_ith(context, index)
                    best_B[row] = np.ctypeslib.as_array(logits, (vocabulary,)).argmax()
        return best_B

    return generate
