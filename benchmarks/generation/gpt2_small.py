"""A decoder of GPT-2 small's shape with random weights, behind the tokenizer of ``stdlib-lm``.

12 layers of width 768, 12 heads, a vocabulary of 50,257 and 1024 positions: 124 million parameters. The tokenizer knows
2048 of the tokens; what the model says with the others has no text, which costs a benchmark nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from attendant.tokenizer import TOKENIZER_NAME
from export.artefact.stage import export_onnx
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint, save_checkpoint
from models.presets import PRESETS
from models.registry import FAMILIES

NAME = "gpt2-small"


def gpt2_small(scratch: Path, precision: str) -> Path:
    """Its artefact; made unless it is there.

    Args:
        scratch: a folder for the checkpoint and the artefact.
        precision: of the graph.
    """
    source = scratch / "checkpoints" / NAME
    if not (source / TOKENIZER_NAME).is_file():
        _write(source)
    out = scratch / f"artefacts-{precision}" / NAME
    export_onnx(str(source), out, precision=precision)
    return out


def _write(folder: Path) -> None:
    torch.manual_seed(0)
    preset, tokenized = PRESETS["gpt2"], checkpoint_named("stdlib-lm").folder
    assert tokenized is not None
    family = FAMILIES[preset.family]
    model = family.build(preset.config).eval()
    folder.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(Checkpoint(name=NAME, family=family, model=model), folder)
    shutil.copy(tokenized / TOKENIZER_NAME, folder / TOKENIZER_NAME)
