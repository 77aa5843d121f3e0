"""The shapes that are measured: other libraries' models and settings. Weights are random, the same for every peer."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["decoder", "translator", "encoder", "vision"]
Library = Literal["transformers", "timm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model that every peer runs.

    Attributes:
        model: transformers' class, or a name of timm's registry.
        settings: where they are not the default.
        prompt: tokens of one.
        pixels: axes of one image or video.
        library: whose model it is; transformers' peers run no other's.
    """

    name: str
    kind: Kind
    model: str
    settings: dict[str, Any]
    vocabulary: int = 0
    prompt: int = 0
    pixels: tuple[int, ...] = (3, 224, 224)
    library: Library = "transformers"

    @property
    def title(self) -> str:
        """What its samples and its table are called: with the length of its prompts, where that is another."""
        return self.name if self == SHAPES[self.name] else f"{self.name}, prompts of {self.prompt}"


_LLAMA160 = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "intermediate_size": 3072,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_TINYLLAMA = {
    **_LLAMA160,
    "hidden_size": 2048,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "intermediate_size": 5632,
}
_SIDE = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}
_MARIAN = {
    "d_model": 512,
    **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in _SIDE.items()},
    "max_position_embeddings": 512,
    "activation_function": "swish",
    "scale_embedding": True,
}
SHAPES = {
    shape.name: shape
    for shape in (
        Shape(name="gpt2", kind="decoder", model="GPT2LMHeadModel", settings={}, vocabulary=50257, prompt=128),
        Shape(
            name="llama160", kind="decoder", model="LlamaForCausalLM", settings=_LLAMA160, vocabulary=32000, prompt=128
        ),
        Shape(
            name="tinyllama",
            kind="decoder",
            model="LlamaForCausalLM",
            settings=_TINYLLAMA,
            vocabulary=32000,
            prompt=128,
        ),
        Shape(name="marian", kind="translator", model="MarianMTModel", settings=_MARIAN, vocabulary=58101, prompt=64),
        Shape(name="bert-base", kind="encoder", model="BertModel", settings={}, vocabulary=30522, prompt=128),
        Shape(name="vit-b-16", kind="vision", model="ViTForImageClassification", settings={"num_labels": 1000}),
        Shape(name="swin-t", kind="vision", model="SwinForImageClassification", settings={"num_labels": 1000}),
        Shape(
            name="swinv2-t",
            kind="vision",
            model="Swinv2ForImageClassification",
            settings={"num_labels": 1000, "image_size": 256, "window_size": 8},
            pixels=(3, 256, 256),
        ),
        Shape(name="tnt-s", kind="vision", model="tnt_s_patch16_224", settings={}, library="timm"),
        Shape(
            name="timesformer",
            kind="vision",
            model="TimesformerForVideoClassification",
            settings={"num_labels": 400},
            pixels=(8, 3, 224, 224),
        ),
    )
}


def random_pixels(batch: int, seed: int, pixels: list[int]) -> NDArray[Any]:
    """The images or videos that every peer gets; the seed makes each brighter, so that none comes twice."""
    brighter: NDArray[Any] = _random_images(batch, *pixels) + np.float32(seed % 1000 / 1000)
    return brighter


@cache
def _random_images(*shape: int) -> NDArray[Any]:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
