"""Sliding windows as Hugging Face configures them: which blocks have one, and how wide it is."""

from typing import Any

from attendant.errors import ConfigError
from models.checkpoints.importers.fields import Fields

_FULL, _SLIDING = "full_attention", "sliding_attention"


def window_from(fields: Fields, layers: int) -> dict[str, Any]:
    """Qwen's form: ``use_sliding_window``, and ``layer_types`` or ``max_window_layers``, blocks that see everything.

    Returns:
        The values of ``window``, ``first_window_layer`` and ``full_layers``.

    Raises:
        ConfigError: the plan is of other kinds of blocks, or of more or fewer of them.
    """
    used, width, whole = fields.flag("use_sliding_window", False), fields.get("sliding_window", 4096), 28
    whole = fields.get("max_window_layers", whole)
    window = width if used else None
    plan = fields.get("layer_types") or [_SLIDING if window and i >= whole else _FULL for i in range(layers)]
    if not isinstance(plan, list) or len(plan) != layers or not all(kind in (_FULL, _SLIDING) for kind in plan):
        raise ConfigError(
            f"{layers} layer_types, each {_FULL} or {_SLIDING}",
            str(plan)[:200],
            "this model is not supported",
        )
    if _SLIDING not in plan:
        return {}
    first = plan.index(_SLIDING)
    if window is None:
        raise ConfigError(f"a sliding_window for layer_types with {_SLIDING}", "none", "correct config.json")
    full = tuple(layer for layer in range(first, layers) if plan[layer] == _FULL)
    return {"window": window, "first_window_layer": first, "full_layers": full}
