"""The form of a graph in which our plugins compute attention within TensorRT, and their kernels while it is built.

    X.onnx ── plugins where they fit ──► the passes of X.tensorrt.onnx, for what is left ──► X[.<phase>].plugins.onnx

A cached decoder's phases get forms of their own: ``prefill`` reads with flash_attention, ``decode`` with
decode_attention and, where that holds too few rows, flash_attention. Other graphs have one form.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx_ir as ir

from attendant.engine_manifest import DECODE, Platform, stem
from attendant.errors import MachineError
from attendant.manifest import Lowered
from attendant.signature import GraphSignature
from export.graph.exported_graph import ExportedGraph, require_signature
from export.graph.rewrite import Rewrite, RewriteResult, Rewrites
from export.passes.tensorrt.passes import PASSES, TENSORRT
from export.targets.check import require_valid, validate
from export.targets.constraints.graph import Graph
from export.targets.targets import target_named
from export.tensorrt.config import EngineConfig

PLUGINS = "plugins"
"""What the names of the files of such forms end with, before ``.onnx``."""


def lower_to_plugins(
    exported: ExportedGraph, folder: Path, phase: str = "", append: bool = False, padded_behind: bool = False
) -> tuple[Lowered, Graph | None]:
    """Write a graph with plugins beside the standard's, and validate it for TensorRT's parser.

    Args:
        exported: the standard's.
        folder: to write, where its weights lie.
        phase: the runs that it is for; all of them if not given.
        append: whether the plugin of single steps writes the caches too.
        padded_behind: whether padding is known to stand behind a row's tokens.

    Returns:
        What was done, and the graph with plugins; none where no plugin fits.

    Raises:
        ExportError: it violates a constraint.
        MachineError: Triton or PyTorch, whose code says what the kernels can do, is not here.
    """
    model, signature = exported.copy().model, exported.signature

    def run(passes: Sequence[Rewrite]) -> tuple[RewriteResult, ...]:
        def require(model: ir.Model) -> None:
            require_signature(model, signature)

        return Rewrites(passes, require, require).run(model)

    results = run(_passes(signature, phase, append, padded_behind))
    if not any(result.fired for result in results):
        passes = tuple(result.to_json() for result in results)
        return Lowered(graph=exported.name, target=TENSORRT, file="", passes=passes), None
    passes = tuple(result.to_json() for result in (*results, *run(PASSES)))
    file = f"{stem(exported.name, phase)}.{PLUGINS}.onnx"
    ir.save(model, folder / file)  # weights in another file stay there, for both
    graph = Graph(folder / file, signature, ir.to_proto(model))
    require_readable(graph)
    return Lowered(graph=exported.name, target=TENSORRT, file=file, passes=passes), graph


def require_readable(graph: Graph) -> None:
    """Hold a graph to what TensorRT's parser reads.

    Raises:
        ExportError: it violates a constraint.
    """
    target = target_named(TENSORRT)
    require_valid(target, validate(graph, target))


@contextmanager
def compile_plugins(config: EngineConfig, platform: Platform) -> Iterator[Callable[[], dict[str, str]]]:
    """Have TensorRT find our plugins, compiled for a machine's GPU, for as long as the context lasts.

    Args:
        config: says whether it shall.
        platform: the machine.

    Yields:
        What tells the plugins that were embedded meanwhile, with their hashes.

    Raises:
        MachineError: TensorRT, Triton or PyTorch is not here.
        UnknownNameError: there are no kernels for the GPU.
    """
    if config.attention == "native":
        yield dict
        return
    from export.tensorrt.plugins.registration import register_plugins

    with register_plugins().embed_kernels(f"sm_{platform.capability.replace('.', '')}") as embedded:
        yield embedded.hashes


def _passes(signature: GraphSignature, phase: str, append: bool, padded_behind: bool) -> tuple[Rewrite, ...]:
    try:
        from export.tensorrt.passes.fuse_additive_attention import FuseAdditiveAttention
        from export.tensorrt.passes.fuse_decode_append import FuseDecodeAppend
        from export.tensorrt.passes.fuse_decode_attention import FuseDecodeAttention
        from export.tensorrt.passes.fuse_flash_attention import FuseFlashAttention
        from export.tensorrt.passes.fuse_window_attention import FuseWindowAttention
    except ModuleNotFoundError as error:
        remedy = "install torch==2.13.0 and triton==3.9.0, or build with --attention native"
        raise MachineError("what compiles plugins", str(error), remedy) from error

    source = signature.axes.get("source")
    additive = FuseAdditiveAttention() if source is None else FuseAdditiveAttention(longest=source.max)
    steps = (FuseDecodeAttention(padded_behind=padded_behind),) if phase == DECODE else ()
    appends = (FuseDecodeAppend(padded_behind=padded_behind),) if phase == DECODE and append else ()
    return (*appends, *steps, FuseWindowAttention(), additive, FuseFlashAttention(padded_behind=padded_behind))
