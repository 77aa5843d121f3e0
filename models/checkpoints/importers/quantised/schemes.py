"""Which scheme a ``config.json`` names, if any."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from models.checkpoints.importers.folder import read_object
from models.checkpoints.importers.quantised.awq import awq
from models.checkpoints.importers.quantised.compressed_tensors import compressed_tensors
from models.checkpoints.importers.quantised.gptq import gptq
from models.checkpoints.importers.quantised.scheme import Scheme, refuse

_SCHEMES: Mapping[str, Callable[[Mapping[str, Any]], Scheme]] = {
    "gptq": gptq,
    "awq": awq,
    "compressed-tensors": compressed_tensors,
}
_OTHERS = {
    "bitsandbytes": "integers or NF4 of bitsandbytes",
    "fp8": "fine-grained FP8",
    "hqq": "HQQ's integers",
    "mxfp4": "MXFP4",
    "torchao": "torchao's types",
}
_FIELDS = ("quantization_config", "compression_config")
_FILES = {"quantize_config.json": "gptq", "quant_config.json": "awq"}
"""What AutoGPTQ and AutoAWQ write beside a ``config.json`` that says nothing → whose it is."""


def without_scheme(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a ``config.json`` but those that name a scheme."""
    return {name: value for name, value in values.items() if name not in _FIELDS}


def scheme_of(values: Mapping[str, Any], folder: Path | None = None) -> Scheme | None:
    """The scheme by which a folder's matrices are stored; none where they are in floating point.

    Args:
        values: the fields of its ``config.json``.
        folder: where it is.

    Raises:
        ArtefactError: a file beside the configuration is no JSON object.
        ConfigError: it has another arithmetic than ours.
    """
    given: Any = None
    for field in _FIELDS:
        given = given or values.get(field)
    for name, writer in _FILES.items():
        if not given and folder is not None and (folder / name).is_file():
            given = {"quant_method": writer, **read_object(folder / name)}
    if not given:
        return None
    method = given.get("quant_method") if isinstance(given, Mapping) else None
    if method is None and "config_groups" in given:
        method = "compressed-tensors"
    if not isinstance(method, str) or method not in _SCHEMES:
        named = _OTHERS.get(method, "quantised weights") if isinstance(method, str) else "quantised weights"
        raise refuse(named, repr(given if method is None else method))
    return _SCHEMES[method](given)
