"""What computes attention in an engine, counted, and a failure where it is not what was planned."""

from collections import Counter

from attendant.engine_manifest import DECOMPOSED, EVERY, NATIVE
from export.tensorrt.fusion import find_fused_attention, find_plugins, require_all
from export.tensorrt.phases import Form

_UNFUSED = "export with --precision fp16 or bf16, or accept it: --allow-decomposed; see docs/guides/tensorrt.md"
_NO_PLUGIN = "read TensorRT's log (logger `tensorrt`), or build with --attention native; see docs/guides/tensorrt.md"


def attention_report(
    graph: str, number: int, layers: str, form: Form, allow_decomposed: bool = False
) -> dict[str, int]:
    """How many layers of an engine compute attention, under one profile.

    Args:
        graph: its name.
        number: of the profile.
        layers: what TensorRT's inspector printed.
        form: what the engine was built from, which plans them.
        allow_decomposed: whether an Attention node may be in no fused kernel.

    Returns:
        ``native``, ``decomposed`` and plugin → count; all of them planned, and all of the plan.

    Raises:
        ExportError: an Attention node is in no fused kernel and has to be, or a plugin's node in no plugin's layer.
    """
    profile = form.profiles[number].name if form.profiles else EVERY
    fused, present = find_fused_attention(layers, number, form.attention), find_plugins(layers, number, form.plugins)
    if not allow_decomposed:
        require_all(graph, profile, fused, "Attention nodes in a fused kernel", _UNFUSED)
    require_all(graph, profile, present, "plugins in layers of their own", _NO_PLUGIN)
    counts = Counter(form.plugins[node] for node in present)
    counts.update(NATIVE if layer else DECOMPOSED for layer in fused.values())
    return dict(sorted(counts.items()))
