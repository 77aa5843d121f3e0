"""Rotary positions as Hugging Face configures them: ``rope_parameters``, or ``rope_theta`` with ``rope_scaling``.

default → none        linear → linear        llama3 → llama3
dynamic → none: its base grows only beyond ``max_position_embeddings``, which no imported model is made for
"""

from collections.abc import Mapping
from typing import Any

from attendant.errors import ConfigError
from models.checkpoints.importers.fields import Fields
from models.layers.rope import RopeConfig, Scaling

_SCALINGS: dict[str, Scaling] = {"default": "none", "dynamic": "none", "linear": "linear", "llama3": "llama3"}
_KNOWN = {
    "type",
    "rope_type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "partial_rotary_factor",
}
_REMEDY = "this model is not supported"


def rope_from(fields: Fields) -> RopeConfig:
    """The rotation that a ``config.json`` asks for.

    Raises:
        ConfigError: its type is not supported, or a parameter is unknown or missing.
    """
    # Both may be there; the other library takes the older one then, if it says anything.
    values = fields.get("rope_scaling") or fields.get("rope_parameters") or {}
    fields.get("rope_parameters")
    unknown = sorted(set(values) - _KNOWN) if isinstance(values, Mapping) else [repr(values)]
    if unknown:
        raise ConfigError(f"only rope parameters among {sorted(_KNOWN)}", str(unknown), _REMEDY)
    kind = values.get("rope_type") or values.get("type") or "default"
    if not isinstance(kind, str) or kind not in _SCALINGS:
        raise ConfigError(f"a rope type of {sorted(_SCALINGS)}", repr(kind), _REMEDY)
    scaling = _SCALINGS[kind]
    theta = float(_number({"rope_theta": fields.get("rope_theta", 10000.0), **values}, "rope_theta"))
    whole = fields.get("max_position_embeddings")
    trained = fields.get("original_max_position_embeddings", values.get("original_max_position_embeddings", whole))
    part = values.get("partial_rotary_factor") or fields.get("partial_rotary_factor") or 1.0
    if part != 1:
        raise ConfigError("heads that are rotated as a whole", f"partial_rotary_factor {part!r}", _REMEDY)
    if scaling == "none":
        return RopeConfig(theta=theta)
    factor = float(_number(values, "factor"))
    if scaling == "linear":
        return RopeConfig(theta=theta, scaling="linear", factor=factor)
    return RopeConfig(
        theta=theta,
        scaling="llama3",
        factor=factor,
        low_frequency_factor=float(_number(values, "low_freq_factor")),
        high_frequency_factor=float(_number(values, "high_freq_factor")),
        original_length=trained,
    )


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    if type(value) not in (int, float):
        raise ConfigError(f"{name} of the rope parameters to be a number", repr(value), "correct config.json")
    assert isinstance(value, int | float)
    return value
