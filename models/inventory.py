"""What `models list` shows, stored: to count the work of every preset takes torch and some twenty seconds.

    python -m models.inventory

counts everything anew and writes ``inventory.json``, which has to be done when a checkpoint, a preset or a family is
added or changes its size.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.presets.preset import Preset

Row = dict[str, Any]
Inventory = dict[str, list[Row]]
INVENTORY = Path(__file__).with_name("inventory.json")


def read_inventory() -> Inventory:
    """The shipped checkpoints, the presets and the families, as they were counted last."""
    inventory: Inventory = json.loads(INVENTORY.read_text(encoding="utf-8"))
    return inventory


def count_inventory() -> Inventory:
    from models.presets import PRESETS

    return {
        "checkpoints": count_checkpoints(),
        "presets": [count_preset(name, preset) for name, preset in PRESETS.items()],
        "families": count_families(),
    }


def count_checkpoints() -> list[Row]:
    """The shipped checkpoints, read from their folders."""
    from models.checkpoints.place import PRETRAINED, shipped_names
    from models.checkpoints.store import load_checkpoint
    from models.size import parts_of

    shipped = [load_checkpoint(PRETRAINED / name, weights="absent") for name in shipped_names()]
    return [
        {
            "name": one.name,
            "family": one.family.name,
            "task": one.family.task.name,
            "parameters": parts_of(one.model).total(),
        }
        for one in shipped
    ]


def count_families() -> list[Row]:
    from models.registry import FAMILIES

    return [{"name": one.name, "task": one.task.name, "config": one.config.__name__} for one in FAMILIES.values()]


def count_preset(name: str, preset: Preset) -> Row:
    """One preset, with the work of one request."""
    from models.registry import FAMILIES
    from models.size import size_of

    size = size_of(preset)
    return {
        "name": name,
        "family": preset.family,
        "task": FAMILIES[preset.family].task.name,
        "parameters": size.parameters,
        "GMAC": round(size.gmac, 6),
        "compared with": preset.compared_with,
    }


if __name__ == "__main__":
    INVENTORY.write_text(json.dumps(count_inventory(), indent=1) + "\n", encoding="utf-8")
