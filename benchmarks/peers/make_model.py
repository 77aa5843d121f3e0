"""A shape with random weights as transformers' folder: python benchmarks/peers/make_model.py SHAPE OUT."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from shapes import SHAPES, Shape
from tokenizers import Tokenizer, models, pre_tokenizers


def main() -> None:
    """Write the model, and the tokenizer or the preprocessing that converters ask for."""
    shape, out = SHAPES[sys.argv[1]], sys.argv[2]
    torch.manual_seed(0)
    kind = getattr(transformers, shape.model)
    kind(kind.config_class(**shape.settings)).eval().save_pretrained(out)
    if shape.kind == "vision":
        _write_preprocessing(Path(out))
    else:
        _write_tokenizer(shape, out)
    np.savez(Path(out) / "calibration.npz", **_samples(shape))


def _write_tokenizer(shape: Shape, out: str) -> None:
    words = {f"w{number}": number for number in range(shape.vocabulary - 1)} | {"<pad>": shape.vocabulary - 1}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))  # noqa: S106 - a word, no password
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    unknown, begin, end, pad = "w0", "w1", "w2", "<pad>"  # CTranslate2 knows Marian's last token by this name
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=unknown, bos_token=begin, eos_token=end, pad_token=pad
    ).save_pretrained(out)


def _write_preprocessing(out: Path) -> None:
    value = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "image_processor_type": "ViTImageProcessor",
        "resample": 2,
        "rescale_factor": 1 / 255,
        "size": {"height": 224, "width": 224},
    }
    (out / "preprocessor_config.json").write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _samples(shape: Shape) -> dict[str, Any]:
    # What ours is calibrated with; images as OpenVINO's int8 is given.
    rng = np.random.default_rng(0)
    if shape.kind == "vision":
        return {"pixels": rng.standard_normal((16, 3, 224, 224), dtype=np.float32)}
    ids_BT = rng.integers(3, shape.vocabulary - 1, (16, shape.prompt))
    if shape.kind == "decoder":
        return {"token_ids": ids_BT}
    return {"source_ids": ids_BT, "source_mask": np.ones_like(ids_BT, dtype=bool)}


if __name__ == "__main__":
    main()
