"""SwinV2 in Hugging Face's form, with a classifier's head.

Source: ``modeling_swinv2.py`` of transformers, its names, which are the same in versions 4 and 5, and configuration.
"""

from typing import Any

from attendant.config import require
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, same
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.swin import MODULES, one_a_stage, sizes
from models.families.swin_v2 import SwinV2Config
from models.layers.windows import windows_of

_OURS = "stages.{}.blocks.{}.attention."
_THEIRS = "encoder.layers.{}.blocks.{}.attention.self."
_ATTENTION = same(
    {
        f"{_OURS}cosine.log_scale": f"{_THEIRS}logit_scale",
        f"{_OURS}position_bias.expand": f"{_THEIRS}continuous_position_bias_mlp.0",
        f"{_OURS}position_bias.contract": f"{_THEIRS}continuous_position_bias_mlp.2",
    }
)


def _config(reference: ReferenceModel) -> SwinV2Config:
    config = SwinV2Config(**sizes(reference), **trained_windows(reference.fields))
    # They round the sides of odd maps down before they choose a window, and up when they cut.
    first = config.image_size // config.patch_size
    for stage, side in enumerate(config.sides):
        theirs, ours = (windows_of(each, config.window, shifted=True) for each in (first // 2**stage, side))
        agree = (theirs.size, theirs.shift) == (ours.size, ours.shift)
        expected = f"an image_size whose maps windows of {config.window} cut alike, rounded up or down"
        require(agree, expected, config.image_size, "this model is not supported")
    return config


def trained_windows(fields: Fields) -> dict[str, Any]:
    """The field of our configuration for the windows of an earlier training, if there was one."""
    trained = one_a_stage(fields.get("pretrained_window_sizes") or ())
    # Zeros say that the windows are those of the training.
    unused = not trained or (isinstance(trained, tuple) and trained == (0,) * len(trained))
    return {} if unused else {"pretrained_windows": trained}


def _origins(config: SwinV2Config) -> Table:
    return {**MODULES, **_ATTENTION}


SWIN_V2 = Architecture(
    model_type="swinv2",
    classes=("Swinv2ForImageClassification",),
    family="swin_v2",
    config_from=_config,
    origins=_origins,
    prefix="swinv2.",
    ignored=(r".*\.relative_position_index", r".*\.relative_coords_table"),
)
