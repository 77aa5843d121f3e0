"""Every constraint by name; records of targets say which are theirs."""

from export.targets.constraints import (
    attention,
    cache,
    control_flow,
    layers,
    plugins,
    quantization,
    session,
    whole_graph,
)
from export.targets.constraints.constraint import CONSTRAINTS

__all__ = (
    "CONSTRAINTS",
    "attention",
    "cache",
    "control_flow",
    "layers",
    "plugins",
    "quantization",
    "session",
    "whole_graph",
)
