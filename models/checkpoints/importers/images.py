"""How images are prepared for an imported model: ``preprocessor_config.json`` to the ``preprocessing`` of a checkpoint.

Source: ``image_processing_backends.py`` of transformers, and its processors of ViT, DeiT and VideoMAE; files from
before 2023 give a size as one number, and call the processor a feature extractor. Where images and texts have one
processor, as TrOCR's have, version 5 writes ``processor_config.json`` instead, with the images' within.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attendant.errors import ArtefactError, ConfigError
from attendant.records import read_json
from models.checkpoints.file_names import CONFIG_NAME

PREPROCESSOR_NAME = "preprocessor_config.json"
PROCESSOR_NAME = "processor_config.json"
_RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
MODES = {1: "L", 3: "RGB"}
"""Channels of an image → its mode."""
MOST = 1 << 14
"""Of a side."""
_ALL: dict[str, Any] = {
    "size": {"height": 224, "width": 224},
    "default_to_square": True,
    "do_center_crop": False,
    "crop_size": 224,
    "resample": 2,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
    "rescale_factor": 1 / 255,
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
}
_SHORTER_SIDE = {"size": {"shortest_edge": 224}, "default_to_square": False, "do_center_crop": True}
_CLIP = {
    **_SHORTER_SIDE,
    "resample": 3,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_PROCESSORS: dict[str, dict[str, Any]] = {
    "ViT": {},
    "DeiT": {"size": {"height": 256, "width": 256}, "do_center_crop": True, "resample": 3},
    "VideoMAE": _SHORTER_SIDE,
    "Bit": _CLIP,
    "CLIP": _CLIP,
    "Beit": {"resample": 3},
    "Siglip": {"default_to_square": False, "resample": 3},
    "Pvt": {"resample": 3, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
}
"""What each processor takes where its file is silent: its difference from ``_ALL``. A null of ``do_…`` means no."""
_OF_MODEL_TYPES = {"deit": "DeiT", "timesformer": "VideoMAE"}
"""The processor of files that name none; ViT's for others."""
_UNDERSTOOD = {
    *("image_processor_type", "feature_extractor_type", "processor_class", "image_mean", "image_std", "resample"),
    *("size", "crop_size", "rescale_factor", "do_resize", "do_rescale", "do_normalize", "do_center_crop"),
    *("do_convert_rgb", "default_to_square", "_valid_processor_keys", "input_data_format", "data_format"),
}


def image_details(source: Path, pixel_shape: tuple[int, ...]) -> dict[str, Any]:
    """What a client must do to an image.

    Args:
        source: the imported folder.
        pixel_shape: of the model: channels, height and width come last.

    Returns:
        Details of the checkpoint: ``preprocessing``, see :mod:`attendant.images`; nothing if the folder does not say.

    Raises:
        ArtefactError: the file is no JSON object.
        ConfigError: it asks for what is not done here, or makes images of another size than the model's.
    """
    both, alone = source / PROCESSOR_NAME, source / PREPROCESSOR_NAME
    values = _json(both).get("image_processor") if both.is_file() else None
    if not isinstance(values, dict):
        if not alone.is_file():
            return {}
        values = _json(alone)
    unknown = {name: value for name, value in values.items() if value and name not in _UNDERSTOOD}
    if unknown:
        raise _unsupported_preprocessing(f"only {sorted(_UNDERSTOOD)}", str(unknown)[:300])
    values = {**_ALL, **_PROCESSORS[_processor(values, source)], **values}
    channels, height, width = pixel_shape[-3:]
    filter_number = values["resample"]
    if type(filter_number) is not int or filter_number not in _RESAMPLING:
        raise _unsupported_preprocessing(f"resample, one of {sorted(_RESAMPLING)}", repr(filter_number))
    if channels not in MODES:
        raise _unsupported_preprocessing(f"images of {sorted(MODES)} channels", f"{channels}, which the model takes")
    scale = values["rescale_factor"] if values["do_rescale"] else 1.0
    if type(scale) not in (int, float) or not 0 < scale < math.inf:
        raise _unsupported_preprocessing("rescale_factor, a number above 0", repr(scale))
    made: dict[str, Any] = {
        "mode": MODES[channels],
        "size": _size(values),
        "resample": _RESAMPLING[filter_number],
        "scale": float(scale),
        "mean": _numbers(values, "image_mean", 0.0, channels),
        "deviation": _numbers(values, "image_std", 1.0, channels),
    }
    if values["do_center_crop"]:
        made["crop"] = _sides(values["crop_size"])
    result = made.get("crop", made["size"])
    if result != [height, width]:
        raise _unsupported_preprocessing(f"images of {[height, width]}, which the model takes", f"images of {result}")
    return {"preprocessing": made}


def _processor(values: Mapping[str, Any], source: Path) -> str:
    kind = values.get("image_processor_type") or values.get("feature_extractor_type")
    if kind is None:
        config = source / CONFIG_NAME
        return _OF_MODEL_TYPES.get(str(_json(config).get("model_type")) if config.is_file() else "", "ViT")
    name = re.sub("(ImageProcessor|FeatureExtractor)(Pil|Fast)?$", "", str(kind))
    if name not in _PROCESSORS:
        raise _unsupported_preprocessing(
            f"a processor of {[f'{one}ImageProcessor' for one in _PROCESSORS]}", repr(kind)
        )
    return name


def _size(values: Mapping[str, Any]) -> int | list[int]:
    if not values["do_resize"]:
        raise _unsupported_preprocessing("images that are resized", f"do_resize: {values['do_resize']}")
    size = values["size"]
    if isinstance(size, dict) and set(size) == {"shortest_edge"}:
        size = size["shortest_edge"]
        return _sides(size)[0]
    if type(size) is int and not values["default_to_square"]:
        return _sides(size)[0]
    return _sides(size)


def _sides(size: Any) -> list[int]:
    if isinstance(size, dict) and set(size) == {"height", "width"}:
        size = [size["height"], size["width"]]
    sides = [size, size] if isinstance(size, int) else size
    if (
        not isinstance(sides, list)
        or len(sides) != 2
        or not all(type(side) is int and 0 < side <= MOST for side in sides)
    ):
        raise _unsupported_preprocessing("a size of a height and a width, or of a shortest_edge", repr(size))
    return sides


def _numbers(values: Mapping[str, Any], name: str, neutral: float, channels: int) -> list[float]:
    given = values[name] if values["do_normalize"] else [neutral] * channels
    numbers = [given] * channels if isinstance(given, int | float) else given
    if given == [0.5] * 3 and channels == 1:  # a default, of images in colour
        numbers = [0.5]
    if not are_numbers(numbers, channels) or (neutral and not all(numbers)):
        raise _unsupported_preprocessing(f"{name} of {channels} numbers", repr(given))
    return [float(number) for number in numbers]


def are_numbers(given: object, count: int) -> bool:
    """Whether a value is a list of so many finite numbers."""
    return (
        isinstance(given, list)
        and len(given) == count
        and all(type(one) in (int, float) and math.isfinite(one) for one in given)
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        values = read_json(path)
    except (OSError, ValueError) as error:
        raise ArtefactError(f"a JSON object at {path}", str(error), "copy the file again") from error
    if not isinstance(values, dict):
        raise ArtefactError(f"a JSON object at {path}", type(values).__name__, "copy the file again")
    return values


def _unsupported_preprocessing(expected: str, found: str) -> ConfigError:
    remedy = f"prepare images yourself, and take {PREPROCESSOR_NAME} or {PROCESSOR_NAME} out of the folder"
    return ConfigError(f"{expected} in {PREPROCESSOR_NAME}", found, remedy)
