"""Which scheme a ``config.json`` names, if any."""

from collections.abc import Callable, Mapping
from typing import Any

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


def without_scheme(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a ``config.json`` but those that name a scheme."""
    return {name: value for name, value in values.items() if name not in _FIELDS}


def scheme_of(values: Mapping[str, Any]) -> Scheme | None:
    """The scheme by which a folder's matrices are stored; none where they are in floating point.

    Raises:
        ConfigError: it has another arithmetic than ours.
    """
    given = next((values[name] for name in _FIELDS if values.get(name)), None)
    if given is None:
        return None
    method = given.get("quant_method") if isinstance(given, Mapping) else None
    if method is None and "config_groups" in given:
        method = "compressed-tensors"
    if not isinstance(method, str) or method not in _SCHEMES:
        named = _OTHERS.get(method, "quantised weights") if isinstance(method, str) else "quantised weights"
        raise refuse(named, repr(given if method is None else method))
    return _SCHEMES[method](given)
