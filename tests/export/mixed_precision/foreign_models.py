"""Models of other people, with random weights, and their ONNX files by torch's exporter of before (TorchScript's)."""

import warnings
from pathlib import Path

import torch
from torch import nn

from tests.oracles.timm_models import timm_model


def export_legacy(module, arguments, path, inputs, outputs, axes=None, opset=17):
    """Write a file as most of those in the world were written."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            arguments,
            path,
            dynamo=False,
            input_names=inputs,
            output_names=outputs,
            dynamic_axes=axes,
            opset_version=opset,
        )
    return path


class _Taken(nn.Module):
    """A model of transformers, tensors in and tensors out."""

    def __init__(self, model, names, taken):
        super().__init__()
        self.model, self.names, self.taken = model, names, taken

    def forward(self, *arguments):
        answer = self.model(**dict(zip(self.names, arguments, strict=True)))
        return tuple(getattr(answer, name) for name in self.taken)


class UNet(nn.Module):
    """Ronneberger, Fischer and Brox 2015, with two levels."""

    def __init__(self, width=8):
        super().__init__()
        self.down = nn.ModuleList([_twice(3, width), _twice(width, 2 * width)])
        self.middle = _twice(2 * width, 4 * width)
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)]
        )
        self.join = nn.ModuleList([_twice(4 * width, 2 * width), _twice(2 * width, width)])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False))


def _twice(inputs, outputs):
    layers = [
        (nn.Conv2d(size, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()) for size in (inputs, outputs)
    ]
    return nn.Sequential(*(one for layer in layers for one in layer))


def unet(folder: Path) -> Path:
    torch.manual_seed(0)
    return export_legacy(UNet(), (torch.randn(1, 3, 32, 32),), folder / "unet.onnx", ["image"], ["mask"])


def timm_cnn(folder: Path, name: str, size: int = 64, **settings: object) -> Path:
    torch.manual_seed(0)
    axes = {"image": {0: "batch"}, "logits": {0: "batch"}}
    image = torch.randn(1, 3, size, size)
    model = timm_model(name, num_classes=10, **settings)
    return export_legacy(model, (image,), folder / f"{name}.onnx", ["image"], ["logits"], axes)


def bert(folder: Path) -> Path:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        attn_implementation="eager",
    )
    model = _Taken(BertForSequenceClassification(config), ("input_ids", "attention_mask"), ("logits",))
    ids = torch.randint(0, 64, (1, 12))
    names = ["input_ids", "attention_mask"]
    axes = {name: {0: "batch", 1: "tokens"} for name in names}
    return export_legacy(model, (ids, torch.ones_like(ids)), folder / "bert.onnx", names, ["logits"], axes)


def t5(folder: Path) -> Path:
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        use_cache=False,
        attn_implementation="eager",
    )
    names = ["input_ids", "attention_mask", "decoder_input_ids"]
    model = _Taken(T5ForConditionalGeneration(config), names, ("logits",))
    ids = torch.randint(0, 64, (1, 12))
    arguments = (ids, torch.ones_like(ids), ids[:, :5])
    axes = {"input_ids": {1: "tokens"}, "attention_mask": {1: "tokens"}}
    return export_legacy(model, arguments, folder / "t5.onnx", names, ["logits"], axes)


def detector(folder: Path) -> Path:
    from transformers import YolosConfig, YolosForObjectDetection

    torch.manual_seed(0)
    config = YolosConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=[32, 32],
        patch_size=8,
        num_detection_tokens=10,
        num_labels=5,
        attn_implementation="eager",
    )
    model = _Taken(YolosForObjectDetection(config), ("pixel_values",), ("logits", "pred_boxes"))
    image = torch.randn(1, 3, 32, 32)
    return export_legacy(model, (image,), folder / "yolos.onnx", ["pixel_values"], ["logits", "boxes"])
