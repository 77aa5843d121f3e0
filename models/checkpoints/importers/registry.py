"""The architectures of other libraries that can be imported: every :class:`Architecture` of this folder's files."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from attendant.errors import UnknownNameError
from models.checkpoints import importers
from models.checkpoints.importers.architecture import Architecture, Library
from models.checkpoints.importers.timm import is_timm

OWN_MODULE = "this model is not supported: serve it as a module of your own, see docs/tutorials/your-own-model.md"
_EXPERTS = re.compile("moe|mixtral|deepseek_v|gpt_oss|llama4|dbrx|jamba|minimax|granitemoe")


@cache
def architectures(library: Library) -> Mapping[str, Architecture]:
    """What can be imported from a library: ``model_type``, or timm's ``architecture``, → what is known of it."""
    modules = [import_module(f"{importers.__name__}.{module.name}") for module in iter_modules(importers.__path__)]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Architecture)]
    if library == "timm":
        return {name: one for one in found if one.library == library for name in one.classes}
    return {one.model_type: one for one in found if one.library == library}


def architecture_of(values: Mapping[str, Any]) -> Architecture:
    """The architecture that a ``config.json`` names.

    Raises:
        UnknownNameError: there is none of that type, or the folder holds another model of it, for instance with a
            classifier's head.
    """
    if is_timm(values):
        return _choose(values["architecture"], architectures("timm"), "an architecture of timm's, one of")
    architecture = _choose(values.get("model_type"), architectures("transformers"), "a model_type of")
    classes = values.get("architectures") or []
    known = isinstance(classes, list) and any(name in classes for name in architecture.classes)
    if classes and not known:
        supported = list(architecture.classes)
        raise UnknownNameError(f"one of the architectures {supported}", str(classes)[:200], OWN_MODULE)
    return architecture


def _choose(found: Any, supported: Mapping[str, Architecture], expected: str) -> Architecture:
    if not isinstance(found, str) or found not in supported:
        experts = "a mixture of experts, " if isinstance(found, str) and _EXPERTS.search(found) else ""
        raise UnknownNameError(f"{expected} {sorted(supported)}", f"{experts}{repr(found)[:100]}", OWN_MODULE)
    return supported[found]
