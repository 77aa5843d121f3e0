"""``stdlib-lm``: a small Llama that writes like the documentation strings of Python's standard library.

The texts of a module follow one another in one stream: names that a module has introduced come again in its next texts.

Legend: B batch, S positions, N tokens of all streams, V vocabulary.
Source: the recipe of the matrices is Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from attendant.tokenization import load_tokenizer
from attendant.tokenizer import TOKENIZER_NAME, Tokenizer
from models.checkpoints.example import example_for
from models.checkpoints.store import Checkpoint
from models.families.decoder import Decoder, DecoderConfig
from models.layers.rope import RopeConfig
from models.train.bits_per_byte import BitsPerByte, decoder_bits
from models.train.docstring_tokenizer import END_TOKEN, train_tokenizer
from models.train.docstrings import size, standard_library
from models.train.loop import Report, Schedule, optimise, reproducible
from models.train.ngram import KneserNey
from models.train.streams import BYTES_AND_END, END_BYTE, byte_streams, token_streams
from models.train.task import Card, TrainingTask

PROMPT, ANSWER_TOKENS = "Open a file and", 24
NGRAM_ORDER = 5
CONFIG = DecoderConfig(
    vocabulary_size=2048,
    layers=3,
    width=128,
    heads=4,
    kv_heads=2,
    head_size=32,
    mlp_width=352,
    max_length=256,
    rope=RopeConfig(),
    tied=True,
)
SCHEDULE = Schedule(steps=3000, batch=8, peak_rate=8e-3, weight_decay=0.3)
MATRIX_RATE = 0.02


@cache
def tokenizer_json() -> str:
    """The tokenizer, learned from the texts to train on."""
    texts = [text for texts in standard_library()[0].values() for text in texts]
    return train_tokenizer(texts, CONFIG.vocabulary_size).to_str(pretty=True) + "\n"


def training_texts(count: int) -> list[str]:
    """Texts to train on, evenly spread over the modules."""
    texts = [text for texts in standard_library()[0].values() for text in texts]
    return texts[:: max(1, len(texts) // count)][:count]


def train(seed: int, report: Report, schedule: Schedule = SCHEDULE) -> Decoder:
    """Train from random weights; the same seed gives the same weights on the same machine."""
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json()))
    stream_N = torch.tensor([token for one in token_streams(standard_library()[0], tokenizer) for token in one])
    with reproducible(seed):
        model = Decoder(CONFIG)
        batches = random_windows(stream_N, CONFIG.max_length + 1, schedule.batch, torch.Generator().manual_seed(seed))
        optimise(model, lambda: _loss(model, next(batches)), schedule, report, optimisers(model, schedule))
    return model


def random_windows(stream_N: Tensor, length: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches ``[count, length]`` without end: the stream cut elsewhere each time round, the pieces in random order."""
    while True:
        offset = int(torch.randint(length - 1, (), generator=generator))
        windows_WS = stream_N[offset:].unfold(0, length, length - 1)  # a window's last token begins the next
        for chosen in torch.split(torch.randperm(len(windows_WS), generator=generator), count):
            if len(chosen) == count:
                yield windows_WS[chosen]


def bits_per_byte(trained: Checkpoint) -> BitsPerByte:
    """What the model and two n-gram models need for the held-out texts of the running interpreter."""
    assert trained.folder
    tokenizer, (training, held_out) = load_tokenizer(trained.folder), standard_library()
    learned, asked = (token_streams(corpus, tokenizer) for corpus in (training, held_out))
    bits = {
        "model": sum(decoder_bits(trained.model, stream, trained.config.max_length) for stream in asked),
        "5-gram of the same tokens": ngram_bits(learned, asked, trained.config.vocabulary_size, END_TOKEN),
        "5-gram of bytes": ngram_bits(byte_streams(training), byte_streams(held_out), BYTES_AND_END, END_BYTE),
    }
    per_byte = {name: value / size(held_out) for name, value in bits.items()}
    return BitsPerByte(model=per_byte.pop("model"), baselines=per_byte, size=size(held_out))


def ngram_bits(learned: list[list[int]], asked: list[list[int]], vocabulary: int, end: int) -> float:
    """The bits of streams but their first tokens, by the n-grams of others."""
    ngrams = KneserNey(NGRAM_ORDER, vocabulary, end, (stream[1:] for stream in learned))
    return sum(ngrams.bits(stream[1:]) for stream in asked)


def optimisers(model: Decoder, schedule: Schedule) -> list[Optimizer]:
    """Muon for the matrices of the blocks, AdamW for the embedding and the norms."""
    matrices = [parameter for parameter in model.blocks.parameters() if parameter.ndim == 2]
    others = [parameter for parameter in model.parameters() if all(parameter is not one for one in matrices)]
    return [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=schedule.weight_decay),
        torch.optim.AdamW(others, lr=schedule.peak_rate, betas=(0.9, 0.95), weight_decay=schedule.weight_decay),
    ]


def _loss(model: nn.Module, window_BS: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):  # a third less time where the processor has instructions for it
        logits_BSV = model(window_BS[:, :-1])
    return F.cross_entropy(logits_BSV.float().flatten(0, 1), window_BS[:, 1:].flatten())


def _write_tokenizer(folder: Path) -> None:
    (folder / TOKENIZER_NAME).write_text(tokenizer_json(), encoding="utf-8")


def _example(trained: Checkpoint) -> dict[str, Any]:
    assert trained.folder
    return example_for(trained, load_tokenizer(trained.folder), PROMPT, ANSWER_TOKENS)


CARD = Card(
    title="Docstrings of Python's standard library, a small Llama",
    purpose="A decoder-only language model that a laptop trains in minutes: the demonstration of text generation in "
    "this repository. It writes what looks like documentation of Python and means nothing: not for anything else.",
    data="The documentation strings of modules, classes and functions of the standard library that came with the "
    "Python that trained it, read from its source without importing it; without its tests, without indentation, each "
    "text once. About 1.6 MB to train on with Python 3.11. None of it lies in this repository but what the tokenizer "
    "learned as tokens, parts of words and short words.",
    licence="Python's documentation strings: Copyright © 2001 Python Software Foundation; All Rights Reserved, under "
    "the PSF License Agreement, version 2, https://docs.python.org/3/license.html. Some modules carry notices of other "
    "authors, who are named there. This repository's licence (Apache-2.0) covers the weights.",
    split="Top-level modules, not texts, are split by the SHA-256 of their names: a fifteenth of the modules is held "
    "out, `collections`, `importlib`, `json` and `logging` among them. A held-out text of which training has more than "
    "half of the runs of six words is dropped. The texts of a held-out module follow one another, so a text may use "
    "what stands in those before it: the model sees 128 to 256 tokens, the n-gram models four. Every token is scored "
    "once, the ends of texts too.",
    recipe=f"Muon for the matrices of the blocks (peak rate {MATRIX_RATE}), AdamW for the embedding and the norms "
    f"(peak rate {SCHEDULE.peak_rate}), {SCHEDULE.steps:,} steps of {SCHEDULE.batch} windows of {CONFIG.max_length} "
    f"tokens, warm-up over {SCHEDULE.warmup:.0%} of the steps, cosine decay to zero, weight decay "
    f"{SCHEDULE.weight_decay}, bfloat16 products over float32 weights. Chosen among a dozen recipes on a part of the "
    "modules to train on; the held-out modules chose nothing, neither recipe nor seed.",
    limits="It has read 1.6 MB of one kind of text: the sentences sound right and are wrong. Outside such "
    "documentation, in another language, or past 256 tokens of prompt and answer it is of no use. Greedy answers "
    "often repeat a word or a sentence. It may repeat lines of the documentation that it was trained on.",
)
TASK = TrainingTask(
    name="stdlib-lm",
    family="decoder",
    steps=SCHEDULE.steps,
    metric="bits per byte, docstrings of held-out modules",
    packages=("torch", "tokenizers", "safetensors"),
    card=CARD,
    train=train,
    score=bits_per_byte,
    example=_example,
    trained_on=training_texts,
    details={"end_tokens": [END_TOKEN]},
    companions=_write_tokenizer,
)
