"""timm's folders: the configuration that its ``save_for_hf`` writes, in the form that the importer reads.

``config.json`` names an ``architecture`` of timm's registry and, in ``model_args``, in what the model differs from it;
``pretrained_cfg`` says how images are prepared, and what the classes are called.

Source: ``_hub.py``, ``data/config.py`` and ``transforms_factory.py`` of timm.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from attendant.errors import ConfigError
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.images import MODES, MOST, are_numbers

ConfigT = TypeVar("ConfigT")
_RESAMPLING = ("nearest", "lanczos", "bilinear", "bicubic")
_DEFAULTS = {
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "crop_mode": "center",
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
}
"""What timm takes where ``pretrained_cfg`` is silent, null or empty; the numbers are ImageNet's."""


def is_timm(values: Mapping[str, Any]) -> bool:
    return "model_type" not in values and isinstance(values.get("architecture"), str)


def flatten_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration, those of ``model_args`` among them, without what is said of images.

    The two equal sides of an image become one number.

    Raises:
        ConfigError: ``model_args`` is no object.
    """
    given = values.get("model_args") or {}
    if not isinstance(given, dict):
        raise ConfigError("model_args to be an object", repr(given)[:200], "correct config.json")
    arguments = dict(given)
    sides = arguments.get("img_size")
    if isinstance(sides, list) and len(sides) == 2 and sides[0] == sides[1]:
        arguments["img_size"] = sides[0]
    left_out = ("model_args", "pretrained_cfg", "num_features", "label_names", "label_descriptions")
    return {**{name: value for name, value in values.items() if name not in left_out}, **arguments}


def resize_config(fields: Fields, config: ConfigT, names: Mapping[str, str], **others: Any) -> ConfigT:
    """A named architecture's configuration, changed as the fields say.

    Args:
        fields: of the folder.
        config: of the named architecture.
        names: the name of a size in timm → ours.
        others: further changes, by our names.

    Raises:
        ConfigError: a size is no positive integer.
    """
    changes: dict[str, Any] = {
        ours: fields.size(theirs, getattr(config, ours)) for theirs, ours in {"num_classes": "classes", **names}.items()
    }
    return replace(config, **changes, **others)  # type: ignore[type-var]  # every configuration is a dataclass


def mlp_width(fields: Fields, width: int, default_ratio: float) -> int:
    """The inner width of an MLP whose ratio to the width may be given."""
    return int(width * fields.number("mlp_ratio", default_ratio))


def image_details(values: Mapping[str, Any], pixel_shape: tuple[int, ...]) -> dict[str, Any]:
    """What a client must do to an image, and what the classes are called.

    Args:
        values: of ``config.json``.
        pixel_shape: of the model: channels, height and width come last.

    Returns:
        Details of the checkpoint: ``preprocessing`` and ``labels``, as far as the folder says.

    Raises:
        ConfigError: it asks for what is not done here, or makes images of another size than the model's.
    """
    prepared = values.get("pretrained_cfg") or {}
    labels = values.get("label_names") or prepared.get("label_names")
    if isinstance(labels, Mapping):  # from numbers to labels, of which JSON makes text
        try:
            labels = [labels[str(index)] for index in range(len(labels))]
        except KeyError as error:
            raise ConfigError(f"label_names of 0 to {len(labels) - 1}", f"no {error}", "correct config.json") from error
    details: dict[str, Any] = {"labels": labels} if labels else {}
    return {**details, "preprocessing": _preprocessing_of(prepared, pixel_shape)} if prepared else details


def _preprocessing_of(prepared: Mapping[str, Any], pixel_shape: tuple[int, ...]) -> dict[str, Any]:
    channels, height, width = pixel_shape[-3:]
    values = {**_DEFAULTS, **{name: value for name, value in prepared.items() if value}}
    given, crop_mode, interpolation = (values.get(name) for name in ("input_size", "crop_mode", "interpolation"))
    if given not in (None, [channels, height, width]):
        raise _unsupported_preprocessing(f"input_size {[channels, height, width]}, which the model takes", repr(given))
    if channels not in MODES:
        raise _unsupported_preprocessing(f"images of {sorted(MODES)} channels", f"{channels}, which the model takes")
    if crop_mode != "center" or height != width:
        raise _unsupported_preprocessing("crop_mode 'center' of a square", repr((crop_mode, [height, width])))
    if interpolation not in _RESAMPLING:
        raise _unsupported_preprocessing(f"interpolation, one of {_RESAMPLING}", repr(interpolation))
    for name in ("mean", "std"):
        if not are_numbers(values[name], channels) or (name == "std" and not all(values[name])):
            raise _unsupported_preprocessing(f"{name} of {channels} numbers", repr(values[name]))
    return {
        "mode": MODES[channels],
        "size": _size(height, values["crop_pct"]),
        "crop": [height, width],
        "crop_offset": "half to even",
        "resample": interpolation,
        "scale": 1 / 255,
        "mean": list(values["mean"]),
        "deviation": list(values["std"]),
    }


def _size(height: int, share: Any) -> int:
    if not (are_numbers([share], 1) and share > 0 and 1 <= height / share <= MOST):
        raise _unsupported_preprocessing(f"crop_pct that makes sides of 1 to {MOST} pixels", repr(share))
    return int(height / share)


def _unsupported_preprocessing(expected: str, found: str) -> ConfigError:
    return ConfigError(f"{expected} in pretrained_cfg", found, "prepare images yourself, and take pretrained_cfg out")
