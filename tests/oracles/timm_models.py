"""timm's models, without torchvision: its wheel needs CUDA's libraries, and beside it transformers imports no model.

timm takes data sets, image transforms and feature extraction from torchvision, and no part of a model. While timm is
imported, empty modules stand in; afterwards they are gone, so that nothing else finds them.
"""

from __future__ import annotations

import sys
from types import ModuleType

_STAND_INS = (
    "torchvision",
    "torchvision.datasets",
    "torchvision.models",
    "torchvision.models.feature_extraction",
    "torchvision.ops",
    "torchvision.ops.misc",
    "torchvision.transforms",
    "torchvision.transforms.functional",
    "torchvision.utils",
)


class _Names(type):
    def __getattr__(cls, name):  # InterpolationMode.NEAREST
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class _StandIn(ModuleType):
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}") or _Names(name, (), {})


def _import_timm():
    sys.modules.update({name: _StandIn(name) for name in _STAND_INS})
    try:
        import timm
    finally:
        for name in _STAND_INS:
            del sys.modules[name]
    return timm


timm = _import_timm()


def timm_model(name, **settings):
    """A model of timm's registry with random weights, in evaluation mode."""
    return timm.create_model(name, pretrained=False, **settings).eval()
