"""Sliding windows as Hugging Face configures them: which blocks have one, and how wide it is."""

from typing import Any

from attendant.errors import ConfigError
from models.checkpoints.importers.fields import Fields

_FULL, _SLIDING = "full_attention", "sliding_attention"


def window_from(fields: Fields, layers: int) -> dict[str, Any]:
    """Qwen's form: ``use_sliding_window``, and ``layer_types`` or ``max_window_layers``, blocks that see everything.

    Returns:
        The values of ``window`` and ``first_window_layer``.

    Raises:
        ConfigError: the blocks with a window are not the last ones.
    """
    used, width, whole = fields.flag("use_sliding_window", False), fields.get("sliding_window", 4096), 28
    whole = fields.get("max_window_layers", whole)
    window = width if used else None
    plan = fields.get("layer_types") or [_SLIDING if window and i >= whole else _FULL for i in range(layers)]
    first = plan.index(_SLIDING) if isinstance(plan, list) and _SLIDING in plan else layers
    if plan != [_FULL] * first + [_SLIDING] * (layers - first):
        raise ConfigError(
            f"{layers} layer_types: {_FULL} up to some block, and {_SLIDING} from there on",
            str(plan)[:200],
            "this model is not supported",
        )
    if first == layers:
        return {}
    if window is None:
        raise ConfigError(f"a sliding_window for layer_types with {_SLIDING}", "none", "correct config.json")
    return {"window": window, "first_window_layer": first}
