"""transformers' folder → OpenVINO's graph: python -m benchmarks.peers.export_openvino KIND SOURCE OUT [int8|int4].

Of models that generate text the stateful graphs that optimum makes; of encoders and image classifiers OpenVINO's own
conversion, for which int8 is NNCF's post-training quantisation, for transformers, over random texts or images.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

OUTPUTS = {"vision": "logits", "encoder": "pooler_output"}


class OneOutput(torch.nn.Module):
    """A model that returns one tensor."""

    def __init__(self, model: torch.nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, first: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        answer = self.model(first) if mask is None else self.model(first, attention_mask=mask)
        output: torch.Tensor = answer if isinstance(answer, torch.Tensor) else getattr(answer, self.name)
        return output


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


def export_whole(kind: str, source: str, out: str, precision: list[str]) -> None:
    import nncf
    import openvino

    model = load_model(Path(source))
    calibration = np.load(Path(source) / "calibration.npz")
    if kind == "vision":
        samples: list[tuple[Any, ...]] = [(one[None],) for one in calibration["pixels"]]
        shapes = [[-1, *calibration["pixels"].shape[1:]]]
    else:
        samples = [(ids[None], np.ones((1, ids.size), dtype=np.int64)) for ids in calibration["token_ids"]]
        shapes = [[-1, -1], [-1, -1]]
    first = tuple(torch.from_numpy(one).repeat(2, *[1] * (one.ndim - 1)) for one in samples[0])
    graph = openvino.convert_model(OneOutput(model.eval(), OUTPUTS[kind]), example_input=first, input=shapes)
    if precision == ["int8"]:
        graph = nncf.quantize(graph, nncf.Dataset(samples), model_type=nncf.ModelType.TRANSFORMER, subset_size=16)
    Path(out).mkdir(parents=True)
    openvino.save_model(graph, Path(out) / "model.xml", compress_to_fp16=False)


def load_model(folder: Path) -> Any:
    """Of the library that wrote it, which its configuration tells."""
    config = json.loads((folder / "config.json").read_text())
    if "architecture" in config:
        from benchmarks.peers.timm_models import timm

        return timm.create_model(f"local-dir:{folder}", pretrained=True)
    import transformers

    return getattr(transformers, config["architectures"][0]).from_pretrained(folder)  # a folder, no hub  # nosec B615


if __name__ == "__main__":
    requested, *places = sys.argv[1:]
    export = export_whole if requested in OUTPUTS else export_text
    export(requested, places[0], places[1], places[2:])
