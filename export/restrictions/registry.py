"""Every restriction by name; records of targets say which are theirs."""

from __future__ import annotations

from export.restrictions.attention import ATTENTION
from export.restrictions.cache import CACHE_UPDATES
from export.restrictions.control_flow import CONTROL_FLOW
from export.restrictions.layers import LAYERS
from export.restrictions.plugins import PLUGINS
from export.restrictions.quantization import QUANTIZATION
from export.restrictions.session import SESSION
from export.restrictions.whole_graph import WHOLE_GRAPH

_EVERY = (*WHOLE_GRAPH, *QUANTIZATION, *ATTENTION, *CACHE_UPDATES, *LAYERS, *CONTROL_FLOW, *PLUGINS, *SESSION)
RESTRICTIONS = {one.name: one for one in _EVERY}
