"""The form of a graph for TensorRT in which our plugins compute attention, and their kernels while it is built.

A cached decoder's phases get forms of their own: ``prefill`` reads with flash_attention, ``decode`` with
decode_attention and, where that holds too few rows, flash_attention. Other graphs have one form.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx_ir as ir

from attendant.engine_manifest import DECODE, Platform, stem
from attendant.errors import MachineError
from attendant.manifest import Lowered
from attendant.signature import GraphSignature
from export.graph.exported_graph import ExportedGraph, require_signature
from export.graph.rewrite import Rewrite, Rewrites
from export.targets.check import require_valid, validate
from export.targets.constraints.graph import Graph
from export.targets.targets import target_named
from export.tensorrt.config import EngineConfig

TARGET = "tensorrt"


def lower_to_plugins(
    exported: ExportedGraph, folder: Path, phase: str = "", append: bool = False
) -> tuple[Lowered, Graph]:
    """Write a graph with plugins beside the standard's, and validate it for TensorRT's parser.

    Args:
        exported: the standard's.
        folder: to write, where its weights lie.
        phase: the runs that it is for; all of them if not given.
        append: whether the plugin of single steps writes the caches too.

    Returns:
        What was done, and the graph with plugins; the standard's where no plugin fits.

    Raises:
        ExportError: it violates a constraint.
        MachineError: Triton or PyTorch, whose code says what the kernels can do, is not here.
    """
    model, signature = exported.model.clone(), exported.signature
    rewrites = Rewrites(
        _passes(signature, phase, append),
        lambda model: require_signature(model, signature),
        lambda model: require_signature(model, signature),
    )
    results = rewrites.run(model)
    file = f"{stem(exported.name, phase)}.{TARGET}.onnx" if any(result.fired for result in results) else ""
    graph = Graph(folder / (file or f"{exported.name}.onnx"), signature, ir.to_proto(model))
    if file:
        ir.save(model, graph.path)  # weights in another file stay there, for both
        target = target_named(TARGET)
        require_valid(target, validate(graph, target))
    passes = tuple(result.to_json() for result in results)
    return Lowered(graph=exported.name, target=TARGET, file=file, passes=passes), graph


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


def _passes(signature: GraphSignature, phase: str, append: bool) -> tuple[Rewrite, ...]:
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
    steps = (FuseDecodeAttention(),) if phase == DECODE else ()
    appends = (FuseDecodeAppend(),) if phase == DECODE and append else ()
    return (*appends, *steps, FuseWindowAttention(), additive, FuseFlashAttention())
