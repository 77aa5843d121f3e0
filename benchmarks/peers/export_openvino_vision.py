"""transformers' folder of an image classifier → OpenVINO's graph: export_openvino_vision.py SOURCE OUT [int8].

int8 is NNCF's post-training quantisation, for transformers, over random images.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nncf
import numpy as np
import openvino
import torch
import transformers


class Logits(torch.nn.Module):
    """A classifier that returns one tensor."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """The logits."""
        logits: torch.Tensor = self.model(pixel_values).logits
        return logits


def main() -> None:
    """Convert, quantise if asked, and save."""
    source, out, precision = sys.argv[1], sys.argv[2], sys.argv[3:]
    model = transformers.AutoModelForImageClassification.from_pretrained(source).eval()
    graph = openvino.convert_model(
        Logits(model), example_input=torch.zeros(2, 3, 224, 224), input=[("pixel_values", [-1, 3, 224, 224])]
    )
    if precision == ["int8"]:
        rng = np.random.default_rng(0)
        images = [rng.standard_normal((1, 3, 224, 224), dtype=np.float32) for _ in range(16)]
        graph = nncf.quantize(graph, nncf.Dataset(images), model_type=nncf.ModelType.TRANSFORMER, subset_size=16)
    Path(out).mkdir(parents=True)
    openvino.save_model(graph, Path(out) / "model.xml", compress_to_fp16=False)


if __name__ == "__main__":
    main()
