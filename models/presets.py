"""Named configurations: the published sizes, the shipped models', and a tiny one a family for tests."""

from __future__ import annotations

from models.families.seq2seq import Seq2SeqConfig
from models.families.vit import ViTConfig

Config = Seq2SeqConfig | ViTConfig

PRESETS: dict[str, tuple[str, Config]] = {
    "transformer-base": ("seq2seq", Seq2SeqConfig(vocabulary_size=37000, attention_bias=False)),
    "transformer-big": (
        "seq2seq",
        Seq2SeqConfig(vocabulary_size=37000, width=1024, heads=16, mlp_width=4096, dropout=0.3, attention_bias=False),
    ),
    "transformer-tiny": (
        "seq2seq",
        Seq2SeqConfig(
            vocabulary_size=31,
            layers=2,
            width=16,
            heads=2,
            mlp_width=32,
            max_source_length=12,
            max_target_length=8,
        ),
    ),
    "vit-b-16": ("vit", ViTConfig()),
    "vit-b-32": ("vit", ViTConfig(patch_size=32)),
    "vit-l-16": ("vit", ViTConfig(layers=24, width=1024, heads=16, mlp_width=4096)),
    "vit-tiny": (
        "vit",
        ViTConfig(
            image_size=12,
            patch_size=4,
            channels=3,
            classes=5,
            layers=2,
            width=16,
            heads=2,
            mlp_width=32,
            head_width=8,
        ),
    ),
}
