"""How many engines run one graph, and from which form of it each is built.

TensorRT's Python template keeps one PTX for each plugin node, known by types, formats and tactic and not by profile. So
where plugins compute attention, the two phases of a cached decoder are engines of their own, each with a copy of the
weights (docs/explanation/decisions/008); everything else is one engine, whose profiles share them.
"""

from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir

from attendant.engine_manifest import DECODE, PREFILL, Profile
from attendant.manifest import Lowered
from export.graph.exported_graph import ExportedGraph
from export.targets.constraints.graph import Graph
from export.tensorrt.attention_nodes import attention_nodes
from export.tensorrt.config import EngineConfig
from export.tensorrt.plugin_graphs import lower_to_plugins
from export.tensorrt.plugin_nodes import plugin_aliases, plugin_nodes
from export.tensorrt.profiles import profiles_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What one engine is built from.

    Attributes:
        phase: the runs that it is for; empty where it is for all.
        path: of the ONNX graph.
        profiles: its sizes; none where no axis varies.
        attention: the Attention nodes that TensorRT itself shall compute.
        plugins: node → plugin, of the others.
        aliases: output → input that a plugin wants at one address.
        lowered: how plugins were put in; none where they were not asked for.
    """

    phase: str = ""
    path: Path
    profiles: tuple[Profile, ...]
    attention: tuple[str, ...]
    plugins: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    lowered: Lowered | None = None


def forms_of(exported: ExportedGraph, folder: Path, config: EngineConfig) -> tuple[Form, ...]:
    """The forms of a graph, the narrower one first; those with plugins are written into the folder.

    Args:
        exported: the standard's graph.
        folder: where its file lies.
        config: whether plugins are asked for.

    Raises:
        ExportError: a form violates a constraint of TensorRT's parser.
        MachineError: what plugins need is not here.
    """
    profiles = profiles_of(exported.signature)
    if config.attention == "native":
        path = folder / f"{exported.name}.onnx"
        return (_form(Graph(path, exported.signature, ir.to_proto(exported.model)), profiles),)
    if [profile.name for profile in profiles] == [DECODE, PREFILL]:
        phases = []
        for profile in profiles:
            lowered, graph = lower_to_plugins(exported, folder, profile.name, config.append_in_plugin)
            phases.append(_form(graph, (profile,), lowered, profile.name))
        if any(form.lowered is not None and form.lowered.file for form in phases):
            return tuple(phases)
    lowered, graph = lower_to_plugins(exported, folder)
    return (_form(graph, profiles, lowered),)


def _form(graph: Graph, profiles: tuple[Profile, ...], lowered: Lowered | None = None, phase: str = "") -> Form:
    return Form(
        phase=phase,
        path=graph.path,
        profiles=profiles,
        attention=attention_nodes(graph),
        plugins=plugin_nodes(graph),
        aliases=plugin_aliases(graph),
        lowered=lowered,
    )
