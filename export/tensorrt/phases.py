"""How many engines run one graph, and from which form of it each is built.

TensorRT's Python template keeps one PTX for each plugin node, known by types, formats and tactic and not by profile. So
where plugins compute attention, the two phases of a cached decoder are engines of their own, each with a copy of the
weights (docs/decisions/008); everything else is one engine, whose profiles share them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from attendant.engine_manifest import DECODE, PREFILL, Profile
from attendant.manifest import Lowered
from attendant.signature import GraphSignature
from export.targets.restrictions.graph import Graph
from export.tensorrt.attention_nodes import attention_nodes
from export.tensorrt.config import EngineConfig
from export.tensorrt.plugin_graphs import lowered_to_plugins
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


def forms_of(folder: Path, signature: GraphSignature, config: EngineConfig) -> tuple[Form, ...]:
    """The forms of a graph, the narrower one first; those with plugins are written into the folder.

    Args:
        folder: where the graph lies.
        signature: of the graph.
        config: whether plugins are asked for.

    Raises:
        ExportError: a form breaks a restriction of TensorRT's parser.
        MachineError: what plugins need is not here.
    """
    profiles = profiles_of(signature)
    if config.attention == "native":
        return (_form(folder, signature, profiles),)
    if [profile.name for profile in profiles] == [DECODE, PREFILL]:
        phases = tuple(_phases(folder, signature, profiles, config.append_in_plugin))
        if any(form.lowered is not None and form.lowered.file for form in phases):
            return phases
    return (_form(folder, signature, profiles, lowered_to_plugins(folder, signature)),)


def _phases(folder: Path, signature: GraphSignature, profiles: tuple[Profile, ...], append: bool) -> Iterator[Form]:
    for profile in profiles:
        lowered = lowered_to_plugins(folder, signature, profile.name, append)
        yield _form(folder, signature, (profile,), lowered, profile.name)


def _form(
    folder: Path,
    signature: GraphSignature,
    profiles: tuple[Profile, ...],
    lowered: Lowered | None = None,
    phase: str = "",
) -> Form:
    path = folder / ((lowered.file if lowered is not None else "") or f"{signature.name}.onnx")
    graph = Graph(path, signature)
    return Form(
        phase=phase,
        path=path,
        profiles=profiles,
        attention=attention_nodes(graph),
        plugins=plugin_nodes(graph),
        aliases=plugin_aliases(graph),
        lowered=lowered,
    )
