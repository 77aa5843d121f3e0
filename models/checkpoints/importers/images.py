"""How images are prepared for an imported model: ``preprocessor_config.json`` to the ``preprocessing`` of a checkpoint.

Source: ``image_processing_backends.py`` of transformers, and its processors of ViT, DeiT and VideoMAE; files from
before 2023 give a size as one number, and call the processor a feature extractor. Where images and texts have one
processor, as TrOCR's have, version 5 writes ``processor_config.json`` instead, with the images' within.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attendant.errors import ArtefactError, ConfigError
from attendant.records import read_json

PREPROCESSOR_NAME = "preprocessor_config.json"
PROCESSOR_NAME = "processor_config.json"
_RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_MODES = {1: "L", 3: "RGB"}
_CROPS_BY_DEFAULT = ("DeiTImageProcessor", "DeiTFeatureExtractor", "VideoMAEImageProcessor", "VideoMAEFeatureExtractor")
_ONE_NUMBER_IS_THE_SHORTER_SIDE = ("VideoMAEImageProcessor", "VideoMAEFeatureExtractor")
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
    channels, height, width = pixel_shape[-3:]
    filter_number = values.get("resample", 3 if _kind(values).startswith("DeiT") else 2)
    if filter_number not in _RESAMPLING:
        raise _unsupported_preprocessing(f"resample, one of {sorted(_RESAMPLING)}", repr(filter_number))
    made: dict[str, Any] = {
        "mode": _MODES[channels],
        "size": _size(values, [height, width]),
        "resample": _RESAMPLING[filter_number],
        "scale": values.get("rescale_factor", 1 / 255) if values.get("do_rescale", True) else 1.0,
        "mean": _numbers(values, "image_mean", 0.0, channels),
        "deviation": _numbers(values, "image_std", 1.0, channels),
    }
    if values.get("do_center_crop", _kind(values) in _CROPS_BY_DEFAULT):
        made["crop"] = _sides(values.get("crop_size", [height, width]))
    result = made.get("crop", made["size"])
    if result != [height, width]:
        raise _unsupported_preprocessing(f"images of {[height, width]}, which the model takes", f"images of {result}")
    return {"preprocessing": made}


def _kind(values: Mapping[str, Any]) -> str:
    kind = str(values.get("image_processor_type") or values.get("feature_extractor_type") or "")
    return kind.removesuffix("Pil").removesuffix("Fast")


def _size(values: Mapping[str, Any], model: list[int]) -> int | list[int]:
    if not values.get("do_resize", True):
        raise _unsupported_preprocessing("images that are resized", "do_resize: false")
    size = values.get("size", model)
    if isinstance(size, dict) and set(size) == {"shortest_edge"}:
        return int(size["shortest_edge"])
    if isinstance(size, int) and _kind(values) in _ONE_NUMBER_IS_THE_SHORTER_SIDE:
        return size
    return _sides(size)


def _sides(size: Any) -> list[int]:
    if isinstance(size, dict) and set(size) == {"height", "width"}:
        size = [size["height"], size["width"]]
    sides = [size, size] if isinstance(size, int) else size
    if not isinstance(sides, list) or len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        raise _unsupported_preprocessing("a size of a height and a width, or of a shortest_edge", repr(size))
    return sides


def _numbers(values: Mapping[str, Any], name: str, neutral: float, channels: int) -> list[float]:
    given = values.get(name, [0.5] * channels) if values.get("do_normalize", True) else [neutral] * channels
    numbers = [given] * channels if isinstance(given, int | float) else given
    if not isinstance(numbers, list) or len(numbers) != channels:
        raise _unsupported_preprocessing(f"{name} of {channels} numbers", repr(given))
    return [float(number) for number in numbers]


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
