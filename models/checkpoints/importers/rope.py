"""Rotary positions as Hugging Face configures them: ``rope_parameters``, or ``rope_theta`` with ``rope_scaling``.

default → none        linear → linear        llama3 → llama3        yarn → yarn
dynamic → none: its base grows only beyond ``max_position_embeddings``, which no imported model is made for
proportional → proportional, the one of which these architectures rotate a part of each head
longrope → longrope: a call of the other library beyond the original length gives all of its positions the angles of the
long factors, and those in the cache stay as they are; so do we position by position, and refuse prompts that are longer
partial_rotary_factor: under default the other library's models of these architectures do not read it, and under all
others but proportional they fail
Source: ``modeling_rope_utils.py`` of transformers.
"""

import math
from collections.abc import Mapping
from typing import Any

from attendant.errors import ConfigError
from models.checkpoints.fitting import LARGEST_SIZE
from models.checkpoints.importers.architecture import ReferenceModel
from models.layers.rope import RopeConfig

_KINDS = ("default", "dynamic", "linear", "llama3", "longrope", "proportional", "yarn")
_KNOWN = {
    *("type", "rope_type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor"),
    *("original_max_position_embeddings", "partial_rotary_factor", "attention_factor", "beta_fast", "beta_slow"),
    *("mscale", "mscale_all_dim", "truncate", "short_factor", "long_factor"),
}
_UNSUPPORTED = "this model is not supported"


def rope_from(reference: ReferenceModel, trained: int, length: int, head_size: int) -> RopeConfig:
    """The rotation that a ``config.json`` asks for.

    Args:
        reference: the folder.
        trained: its ``max_position_embeddings``, or the architecture's.
        length: of the imported model's sequences.
        head_size: of its heads.

    Raises:
        ConfigError: its type is not supported, or a parameter is unknown, missing or no number.
    """
    values = _parameters(reference, trained)
    kind, theta = values["rope_type"], _number(values, "rope_theta")
    if kind in ("default", "dynamic"):
        return RopeConfig(theta=theta)
    if kind == "linear":
        return RopeConfig(theta=theta, scaling="linear", factor=_number(values, "factor"))
    if kind == "proportional":
        part = _number(values, "partial_rotary_factor", 1.0)
        if not 0 <= part <= 1:
            raise ConfigError("a partial_rotary_factor from 0 to 1", repr(part), "correct config.json")
        factor = _number(values, "factor", 1.0)
        pairs = int(part * head_size // 2)
        return RopeConfig(theta=theta, scaling="proportional", factor=factor, rotated_pairs=pairs)
    original = values["original_max_position_embeddings"]
    if type(original) is not int or not 1 <= original <= LARGEST_SIZE:
        expected = f"original_max_position_embeddings of the rope parameters, from 1 to {LARGEST_SIZE}"
        raise ConfigError(expected, repr(original)[:100], "correct config.json")
    if kind == "llama3":
        return RopeConfig(
            theta=theta,
            scaling="llama3",
            factor=_number(values, "factor"),
            low_frequency_factor=_number(values, "low_freq_factor"),
            high_frequency_factor=_number(values, "high_freq_factor"),
            original_length=original,
        )
    factor = trained / original if values.get("factor") is None else _number(values, "factor")
    if kind == "yarn":
        return RopeConfig(
            theta=theta,
            scaling="yarn",
            factor=factor,
            low_frequency_factor=_number(values, "beta_slow", 1.0) or 1.0,
            high_frequency_factor=_number(values, "beta_fast", 32.0) or 32.0,
            original_length=original,
            truncated=_truncated(values),
            attention_factor=_number(values, "attention_factor", _yarn_factor(values, factor)),
        )
    longer = factor > 1 and original > 1
    usual = math.sqrt(1 + math.log(factor) / math.log(original)) if longer else 1.0
    short, long = _factors(values, "short_factor"), _factors(values, "long_factor")
    if switches := length > original:
        reference.notes.append(f"longrope: prompts of at most {original} tokens, and answers up to {length} with them")
    return RopeConfig(
        theta=theta,
        scaling="longrope",
        factors=short,
        long_factors=long if switches else (),
        original_length=original if switches else 0,
        attention_factor=_number(values, "attention_factor", usual),
    )


def _factors(values: Mapping[str, Any], name: str) -> tuple[float, ...]:
    found = values.get(name)
    if not isinstance(found, list) or not found or not all(type(one) in (int, float) for one in found):
        raise ConfigError(f"{name} of the rope parameters to be numbers", repr(found)[:100], "correct config.json")
    return tuple(map(float, found))


def _parameters(reference: ReferenceModel, trained: int) -> dict[str, Any]:
    fields = reference.fields
    # Both may be there; the other library takes the older one then, if it says anything.
    values = fields.get("rope_scaling") or fields.get("rope_parameters") or {}
    fields.get("rope_parameters")
    unknown = sorted(set(values) - _KNOWN) if isinstance(values, Mapping) else [repr(values)]
    if unknown:
        raise ConfigError(f"only rope parameters among {sorted(_KNOWN)}", str(unknown)[:300], _UNSUPPORTED)
    kind = values.get("rope_type") or values.get("type") or "default"
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigError(f"a rope type of {list(_KINDS)}", repr(kind)[:100], _UNSUPPORTED)
    part = values.get("partial_rotary_factor", fields.get("partial_rotary_factor"))
    fields.get("partial_rotary_factor")
    if part not in (None, 1):
        if kind == "default":
            note = "transformers rotates the heads of this architecture as a whole, and so do we"
            reference.notes.append(f"partial_rotary_factor {part!r} is not read: {note}")
        elif kind != "proportional":
            raise ConfigError("heads that are rotated as a whole", f"partial_rotary_factor {part!r}", _UNSUPPORTED)
    original = values.get("original_max_position_embeddings", trained)
    return {
        "rope_theta": fields.number("rope_theta", 10000.0),
        **values,
        "rope_type": kind,
        "partial_rotary_factor": part,
        "original_max_position_embeddings": fields.get("original_max_position_embeddings", original),
    }


def _yarn_factor(values: Mapping[str, Any], factor: float) -> float:
    def scale(one: float) -> float:
        return 0.1 * one * math.log(factor) + 1.0 if factor > 1 else 1.0

    one, other = _number(values, "mscale", 0.0), _number(values, "mscale_all_dim", 0.0)
    return scale(one) / scale(other) if one and other else scale(1.0)


def _truncated(values: Mapping[str, Any]) -> bool:
    found = values.get("truncate", True)
    found = False if found is None else found
    if type(found) is not bool:
        raise ConfigError(
            "truncate of the rope parameters to be true or false", repr(found)[:100], "correct config.json"
        )
    return found


def _number(values: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = values.get(name)
    value = default if value is None else value
    if type(value) not in (int, float):
        raise ConfigError(f"{name} of the rope parameters to be a number", repr(value)[:100], "correct config.json")
    assert isinstance(value, int | float)
    try:
        return float(value)
    except OverflowError as error:
        raise ConfigError(f"{name} that a float holds", str(value)[:100], "correct config.json") from error
