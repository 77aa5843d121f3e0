"""Presets of the encoder-only Transformer: BERT base, Devlin et al. 2019, section 3."""

from models.families.encoder import EncoderConfig
from models.presets.preset import Preset

_CONFIGS = {
    "bert-base-uncased": EncoderConfig(),
    "bert-base-cased": EncoderConfig(vocabulary_size=28996),
    "bert-tiny": EncoderConfig(vocabulary_size=31, layers=2, width=16, heads=2, mlp_width=32, max_length=12),
}
PRESETS = {
    name: Preset(family="encoder", config=config, compared_with="transformers BERT, torch.nn")
    for name, config in _CONFIGS.items()
}
