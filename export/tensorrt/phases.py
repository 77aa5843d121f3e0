"""How many engines run one graph, and from which form of it each is built.

TensorRT's Python template keeps one PTX for each plugin node, known by types, formats and tactic and not by profile. So
where plugins compute attention, the two phases of a cached decoder are engines of their own, each with a copy of the
weights (docs/explanation/decisions/008); everything else is one engine, whose profiles share them.
"""

from dataclasses import dataclass, field
from pathlib import Path

from attendant.engine_manifest import DECODE, PREFILL, Profile
from attendant.manifest import Lowered, Manifest
from attendant.tasks import task_named
from export.graph.exported_graph import ExportedGraph
from export.passes.tensorrt.passes import TENSORRT
from export.targets.constraints.graph import Graph
from export.tensorrt.attention_nodes import attention_nodes
from export.tensorrt.config import EngineConfig
from export.tensorrt.fusion_plan import ExpectedAttention, plan_fusion
from export.tensorrt.plugin_graphs import lower_to_plugins, require_readable
from export.tensorrt.plugin_nodes import plugin_aliases, plugin_nodes
from export.tensorrt.profiles import profiles_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What one engine is built from.

    Attributes:
        phase: the runs that it is for; empty where it is for all.
        source: the ONNX file of the artefact that it is, or was made from.
        path: of the ONNX graph.
        profiles: its sizes; none where no axis varies.
        attention: the Attention nodes that TensorRT itself shall compute.
        expected: which of them it is expected to fuse.
        plugins: node → plugin, of the others.
        aliases: output → input that a plugin wants at one address.
        lowered: how plugins were put in; none where they were not asked for.
    """

    phase: str = ""
    source: str
    path: Path
    profiles: tuple[Profile, ...]
    attention: tuple[str, ...]
    expected: tuple[ExpectedAttention, ...] = ()
    plugins: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    lowered: Lowered | None = None


def forms_of(name: str, manifest: Manifest, folder: Path, config: EngineConfig) -> tuple[Form, ...]:
    """The forms of a graph, the narrower one first; those with plugins are written into the folder.

    Args:
        name: of the graph.
        manifest: the artefact's.
        folder: where its files lie.
        config: whether plugins are asked for.

    Raises:
        ExportError: a form violates a constraint of TensorRT's parser.
        MachineError: what plugins need is not here.
    """
    profiles = profiles_of(manifest.graph(name))
    native = Graph(folder / manifest.file_for(name, TENSORRT), manifest.signature_for(name, TENSORRT))
    if config.attention == "native":
        require_readable(native)
        return (_form(native, profiles),)
    exported = ExportedGraph.read(folder, manifest.graph(name))
    ours = task_named(manifest.task).reads != "tensors"  # else masks are the clients', who may pad as they like
    if [profile.name for profile in profiles] == [DECODE, PREFILL]:
        made = [
            (profile, *lower_to_plugins(exported, folder, profile.name, config.append_in_plugin, ours))
            for profile in profiles
        ]
        if any(lowered.file for _, lowered, _ in made):
            return tuple(_form(graph or native, (profile,), lowered, profile.name) for profile, lowered, graph in made)
    lowered, graph = lower_to_plugins(exported, folder, padded_behind=ours)
    return (_form(graph or native, profiles, lowered),)


def _form(graph: Graph, profiles: tuple[Profile, ...], lowered: Lowered | None = None, phase: str = "") -> Form:
    with_plugins = lowered is not None and lowered.file
    return Form(
        phase=phase,
        source=f"{graph.signature.name}.onnx" if with_plugins else graph.path.name,
        path=graph.path,
        profiles=profiles,
        attention=attention_nodes(graph),
        expected=plan_fusion(graph),
        plugins=plugin_nodes(graph),
        aliases=plugin_aliases(graph),
        lowered=lowered,
    )
