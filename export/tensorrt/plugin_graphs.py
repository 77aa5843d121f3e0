"""The form of a graph for TensorRT in which our plugins compute attention, and their kernels while it is built.

A cached decoder's phases get forms of their own: ``prefill`` reads with flash_attention, ``decode`` with
decode_attention and, where that holds too few rows, flash_attention. Other graphs have one form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import onnx_ir as ir

from attendant.engine_manifest import DECODE, Platform, stem
from attendant.errors import MachineError
from attendant.manifest import Lowered
from attendant.signature import GraphSignature
from export.graph.outcome import Outcome, require_no_misses
from export.targets.check import require_target, verdicts_of
from export.targets.restrictions.graph import Graph
from export.targets.targets import target_named
from export.tensorrt.config import EngineConfig

TARGET = "tensorrt"


def lowered_to_plugins(folder: Path, signature: GraphSignature, phase: str = "", append: bool = False) -> Lowered:
    """Write a graph with plugins beside the standard's, and hold it to what TensorRT's parser reads.

    Args:
        folder: where the graph and its weights lie.
        signature: of the graph.
        phase: the runs that it is for; all of them if not given.
        append: whether the plugin of single steps writes the caches too.

    Raises:
        ExportError: it breaks a restriction.
        MachineError: Triton or PyTorch, whose code says what the kernels can do, is not here.
    """
    model = ir.load(folder / f"{signature.name}.onnx")
    outcomes = [fuse(model) for fuse in _passes(signature, phase, append)]
    for outcome in outcomes:
        require_no_misses(outcome)
    file = f"{stem(signature.name, phase)}.{TARGET}.onnx" if any(outcome.fired for outcome in outcomes) else ""
    if file:
        ir.save(model, folder / file)  # weights in another file stay there, for both
        target = target_named(TARGET)
        require_target(target, verdicts_of(Graph(folder / file, signature), target))
    return Lowered(
        graph=signature.name, target=TARGET, file=file, passes=tuple(outcome.to_json() for outcome in outcomes)
    )


@contextmanager
def compiled_plugins(config: EngineConfig, platform: Platform) -> Iterator[Callable[[], dict[str, str]]]:
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

    with register_plugins().embedding(f"sm_{platform.capability.replace('.', '')}") as embedded:
        yield embedded.hashes


def _passes(signature: GraphSignature, phase: str, append: bool) -> tuple[Callable[[ir.Model], Outcome], ...]:
    try:
        from export.tensorrt.passes.fuse_additive_attention import fuse_additive_attention
        from export.tensorrt.passes.fuse_decode_append import fuse_decode_append
        from export.tensorrt.passes.fuse_decode_attention import fuse_decode_attention
        from export.tensorrt.passes.fuse_flash_attention import fuse_flash_attention
        from export.tensorrt.passes.fuse_window_attention import fuse_window_attention
    except ModuleNotFoundError as error:
        remedy = "install torch==2.13.0 and triton==3.9.0, or build with --attention native"
        raise MachineError("what compiles plugins", str(error), remedy) from error

    source = signature.axes.get("source")
    additive = fuse_additive_attention if source is None else partial(fuse_additive_attention, longest=source.largest)
    steps = (fuse_decode_attention,) if phase == DECODE else ()
    appending = (fuse_decode_append,) if phase == DECODE and append else ()
    return (*appending, *steps, fuse_window_attention, additive, fuse_flash_attention)
