"""A small BERT with random weights behind the tokenizer of ``stdlib-lm``: no shipped checkpoint embeds texts.

4 layers of width 256, 4 heads, 128 positions: 3.8 million parameters. Its vectors mean nothing; they cost what such
vectors cost.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from attendant.tokenizer import TOKENIZER_NAME
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint, save_checkpoint
from models.presets import PRESETS
from models.registry import FAMILIES

NAME = "text-encoder"
_SHAPE = {"layers": 4, "width": 256, "heads": 4, "mlp_width": 1024, "max_length": 128}
_TEXT = "Open a file and"


def text_encoder(checkpoints: Path) -> Path:
    """Its checkpoint in that folder; made unless it is there."""
    folder = checkpoints / NAME
    if not (folder / TOKENIZER_NAME).is_file():
        _write(folder)
    return folder


@torch.no_grad()
def _write(folder: Path) -> None:
    torch.manual_seed(0)
    preset, tokenized = PRESETS["bert-base-uncased"], checkpoint_named("stdlib-lm").folder
    assert tokenized is not None
    tokenizer = Tokenizer.from_file(str(tokenized / TOKENIZER_NAME))
    family = FAMILIES[preset.family]
    model = family.build(replace(preset.config, vocabulary_size=tokenizer.get_vocab_size(), **_SHAPE)).eval()
    ids_BT = torch.tensor([tokenizer.encode(_TEXT).ids])
    _, pooled_BE = model(ids_BT, torch.ones_like(ids_BT, dtype=torch.bool), torch.zeros_like(ids_BT))
    example = {"inputs": {"text": _TEXT}, "answer": pooled_BE[0, :8].tolist()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(Checkpoint(name=NAME, family=family, model=model, example=example), folder)
    shutil.copy(tokenized / TOKENIZER_NAME, folder / TOKENIZER_NAME)
