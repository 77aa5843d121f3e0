"""Every restriction by name; records of targets say which are theirs."""

from __future__ import annotations

from export.targets.restrictions.attention import ATTENTION
from export.targets.restrictions.cache import CACHE_UPDATES
from export.targets.restrictions.control_flow import CONTROL_FLOW
from export.targets.restrictions.layers import LAYERS
from export.targets.restrictions.plugins import PLUGINS
from export.targets.restrictions.quantization import QUANTIZATION
from export.targets.restrictions.session import SESSION
from export.targets.restrictions.whole_graph import WHOLE_GRAPH

_EVERY = (*WHOLE_GRAPH, *QUANTIZATION, *ATTENTION, *CACHE_UPDATES, *LAYERS, *CONTROL_FLOW, *PLUGINS, *SESSION)
RESTRICTIONS = {one.name: one for one in _EVERY}
