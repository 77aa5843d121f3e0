"""Named configurations: the published sizes, and a tiny one a family for tests; every file in this folder has some."""

from importlib import import_module
from pkgutil import iter_modules

from models.presets.preset import Preset

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
PRESETS: dict[str, Preset] = {name: one for module in _MODULES for name, one in getattr(module, "PRESETS", {}).items()}
