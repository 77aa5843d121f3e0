"""transformers' folder → OpenVINO's graph: python -m benchmarks.peers.export_openvino KIND SOURCE OUT [int8|int4].

Of text models the stateful graphs that optimum makes; of image classifiers OpenVINO's own conversion, for which int8 is
NNCF's post-training quantisation, for transformers, over random images.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Logits(torch.nn.Module):
    """A classifier that returns one tensor."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(pixel_values).logits
        return logits


def export_text(kind: str, source: str, out: str, precision: list[str]) -> None:
    from optimum.intel import OVModelForCausalLM, OVModelForSeq2SeqLM, OVWeightQuantizationConfig

    quantised: dict[str, dict[str, Any]] = {
        "int8": {"bits": 8, "sym": False},
        "int4": {"bits": 4, "sym": True, "group_size": 128, "ratio": 1.0},
    }
    options: dict[str, Any] = {"load_in_8bit": False}
    if precision:
        options = {"quantization_config": OVWeightQuantizationConfig(**quantised[precision[0]])}
    model = OVModelForCausalLM if kind == "decoder" else OVModelForSeq2SeqLM
    model.from_pretrained(source, export=True, compile=False, use_cache=True, **options).save_pretrained(out)


def export_vision(source: str, out: str, precision: list[str]) -> None:
    import nncf
    import openvino
    import transformers

    model = transformers.AutoModelForImageClassification.from_pretrained(source)  # a folder, not the hub  # nosec B615
    model.eval()
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
    requested, *places = sys.argv[1:]
    if requested == "vision":
        export_vision(places[0], places[1], places[2:])
    else:
        export_text(requested, places[0], places[1], places[2:])
