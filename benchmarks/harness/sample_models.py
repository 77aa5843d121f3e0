"""Models with random weights, which cost what such models cost, behind the tokenizer of ``stdlib-lm``.

gpt2-small     12 layers of width 768, 12 heads, 50,257 tokens and 1024 positions: 124 million parameters. The
               tokenizer knows 2048 of the tokens; what is said with the others has no text
text-encoder   a BERT of 4 layers of width 256, 4 heads, 128 positions: 3.8 million parameters
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from attendant.tokenizer import TOKENIZER_NAME
from export.artefact.stage import export_onnx
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint, save_checkpoint
from models.presets import PRESETS
from models.registry import FAMILIES

GPT2_SMALL, TEXT_ENCODER = "gpt2-small", "text-encoder"
_ENCODER_SHAPE = {"layers": 4, "width": 256, "heads": 4, "mlp_width": 1024, "max_length": 128}
_TEXT = "Open a file and"


def gpt2_small(scratch: Path, precision: str) -> Path:
    """Its artefact of a precision, below a folder that also gets the checkpoint; made unless it is there."""
    out = scratch / f"artefacts-{precision}" / GPT2_SMALL
    export_onnx(str(write_checkpoint(GPT2_SMALL, scratch / "checkpoints")), out, precision=precision)
    return out


@torch.no_grad()
def write_checkpoint(name: str, checkpoints: Path) -> Path:
    """The folder of a checkpoint; made unless it is there."""
    folder = checkpoints / name
    if (folder / TOKENIZER_NAME).is_file():
        return folder
    torch.manual_seed(0)
    preset, tokenized = (
        PRESETS["gpt2" if name == GPT2_SMALL else "bert-base-uncased"],
        checkpoint_named("stdlib-lm").folder,
    )
    assert tokenized is not None
    family, config, example = FAMILIES[preset.family], preset.config, dict[str, Any]()
    if name == TEXT_ENCODER:
        tokenizer = Tokenizer.from_file(str(tokenized / TOKENIZER_NAME))
        config = replace(config, vocabulary_size=tokenizer.get_vocab_size(), **_ENCODER_SHAPE)
    model = family.build(config).eval()
    if name == TEXT_ENCODER:
        ids_BT = torch.tensor([tokenizer.encode(_TEXT).ids])
        _, pooled_BE = model(ids_BT, torch.ones_like(ids_BT, dtype=torch.bool), torch.zeros_like(ids_BT))
        example = {"inputs": {"text": _TEXT}, "answer": pooled_BE[0, :8].tolist()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(Checkpoint(name=name, family=family, model=model, example=example), folder)
    shutil.copy(tokenized / TOKENIZER_NAME, folder / TOKENIZER_NAME)
    return folder
