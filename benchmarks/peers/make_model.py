"""A shape with random weights as its library's folder: python -m benchmarks.peers.make_model SHAPE OUT."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers.shapes import SHAPES, Shape

PREPROCESSING = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "image_processor_type": "ViTImageProcessor",
    "resample": 2,
    "rescale_factor": 1 / 255,
}


def main() -> None:
    """Write the model, and the tokenizer or the preprocessing that converters ask for."""
    shape, out = SHAPES[sys.argv[1]], Path(sys.argv[2])
    torch.manual_seed(0)
    if shape.library == "timm":
        from benchmarks.peers.timm_models import timm

        timm.models.save_for_hf(timm.create_model(shape.model, **shape.settings), str(out), safe_serialization=True)
    else:
        save_transformers(shape, out)
    np.savez(out / "calibration.npz", **calibration_samples(shape))


def save_transformers(shape: Shape, out: Path) -> None:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    model = getattr(transformers, shape.model)
    model(model.config_class(**shape.settings)).eval().save_pretrained(out)
    if shape.kind == "vision":
        height, width = shape.pixels[-2:]
        preprocessing = {**PREPROCESSING, "size": {"height": height, "width": width}}
        (out / "preprocessor_config.json").write_text(json.dumps(preprocessing, indent=2) + "\n", encoding="utf-8")
    else:
        words = {f"w{number}": number for number in range(shape.vocabulary - 1)} | {"<pad>": shape.vocabulary - 1}
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))  # noqa: S106 - a word, no password
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        special = {"unk_token": "w0", "bos_token": "w1", "eos_token": "w2"}
        # CTranslate2 knows Marian's last token by this name.
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token="<pad>",  # noqa: S106
            **special,
        ).save_pretrained(out)


def calibration_samples(shape: Shape) -> dict[str, Any]:
    """What ours is calibrated with; images as OpenVINO's int8 is given."""
    rng = np.random.default_rng(0)
    if shape.kind == "vision":
        return {"pixels": rng.standard_normal((16, *shape.pixels), dtype=np.float32)}
    ids_BT = rng.integers(3, shape.vocabulary - 1, (16, shape.prompt))
    if shape.kind == "encoder":
        return {"token_ids": ids_BT, "mask": np.ones_like(ids_BT, dtype=bool), "token_types": np.zeros_like(ids_BT)}
    if shape.kind == "decoder":
        return {"token_ids": ids_BT}
    return {"source_ids": ids_BT, "source_mask": np.ones_like(ids_BT, dtype=bool)}


if __name__ == "__main__":
    main()
