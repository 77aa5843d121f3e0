"""DeiT with distillation in Hugging Face's form: both tokens, both heads.

Source: ``modeling_deit.py`` of transformers, its names and configuration. A DeiT that was trained without a teacher has
no distillation token, and its files say ``vit`` (:mod:`models.checkpoints.importers.vit`).
"""

from models.checkpoints.importers.architecture import Architecture, Table, same
from models.checkpoints.importers.vit import MODULES, SPELLINGS, vit_config
from models.families.vit import ViTConfig

_MODULES = {
    **MODULES,
    **same(
        {
            "distillation_token": "embeddings.distillation_token",
            "head": "cls_classifier",
            "distillation_head": "distillation_classifier",
        }
    ),
}


def _origins(config: ViTConfig) -> Table:
    return _MODULES


DEIT = Architecture(
    model_type="deit",
    classes=("DeiTForImageClassificationWithTeacher",),
    family="deit",
    config_from=vit_config,
    origins=_origins,
    prefix="deit.",
    spellings=SPELLINGS,
)
