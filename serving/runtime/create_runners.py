"""Which runtime executes which graph of an artefact.

Measured on one core in float32, at batches of 1 and 8: for encoders and models of images from ViT-Ti/16 up, OpenVINO
takes 0.82 to 0.97 of ONNX Runtime's time; for graphs of less than a megabyte, as much as twice its time. In static int8
it is 0.70 to 0.98, and 0.74 to 1.9: there OpenVINO reads signed activations, and ONNX Runtime the lowered graph with
unsigned ones. Other graphs in integers run on ONNX Runtime unless OpenVINO is requested: ViT-S/16 and Swin-T in int8
take 0.5 to 0.7 of their time in float32 there, and 1.1 to 1.3 of it on OpenVINO. Models with windows, and encoders of
texts, have a graph for OpenVINO (:mod:`export.passes.lowering`), which these figures are older than. Graphs that update
a cache run on ONNX Runtime whatever is asked. A graph whose engine lies in the artefact runs on TensorRT unless another
runtime is asked for. Artefacts of ``export torch`` run on torch, and on nothing else.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from attendant.engine_manifest import EngineManifest
from attendant.errors import ArtefactError, MachineError
from attendant.manifest import Manifest
from attendant.parameters import Device, Runtime
from attendant.signature import GraphSignature
from attendant.tensor_names import EXPLAINED, PREFILL
from serving.runtime.base import Runner
from serving.runtime.executable import require_executable
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed
from serving.runtime.processor import AMX, has_instructions
from serving.runtime.tensorrt.engines import Engines
from serving.runtime.tensorrt.known_engines import is_laid_out, require_known

LARGE = 10_000_000
"""Bytes of a float32 graph and its weights from which ``auto`` takes OpenVINO where it is installed."""
_BYTES_OF_FLOAT32 = 4


class Runners(dict[str, Runner]):
    """A runner for every graph of an artefact: graph name → runner.

    The graph ``explained`` is loaded when it is first requested, and not before: then its files are verified again.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        load: Callable[[GraphSignature], Runner],
        graphs: Iterable[GraphSignature] | None = None,
    ) -> None:
        """Load the others.

        Args:
            folder: the artefact.
            manifest: its own.
            load: one graph.
            graphs: all of its own, if not given.
        """
        super().__init__()
        self._folder, self._manifest, self._load = folder, manifest, load
        for signature in manifest.graphs if graphs is None else graphs:
            if signature.name != EXPLAINED:
                self[signature.name] = self._load(signature)

    def __missing__(self, name: str) -> Runner:
        signature = self._manifest.graph(name)
        try:
            self._manifest.verify(self._folder)
            self[name] = self._load(signature)
        except ArtefactError as error:  # clients are told, and not where it lies
            expected, found = (text.replace(f"{self._folder}/", "") for text in (error.expected, error.found))
            raise ArtefactError(expected, found, "load the model anew: its files are others by now") from error
        return self[name]


def create_runners(
    folder: Path, manifest: Manifest, threads: int = 1, runtime: Runtime = "auto", device: Device = "auto"
) -> Runners:
    """A runner for every graph of an artefact.

    Args:
        folder: the artefact.
        manifest: the artefact's.
        threads: for the work inside one operator; small models are fastest with one.
        runtime: ``openvino`` and ``openvino-bf16`` leave graphs that update a cache to ONNX Runtime; ``auto`` is
            ``openvino`` where that is installed, reads the graph, and the graph is large, and TensorRT where the
            graph's engine lies in the folder.
        device: that torch runs on; ``auto`` is a GPU where it sees one, ``cuda-no-gluon`` one without kernels in Gluon.

    Raises:
        ConfigError: no runtime or device is called so, or they are another form's than the artefact's.
        MachineError: OpenVINO, torch or a GPU is requested and not there, no runtime here has operators of the graphs'
            types, or engines were built for another machine.
        ArtefactError: a runtime cannot load a graph, or its tensors are not the signature's.
    """
    described = engines_for(folder, runtime)
    require_executable(manifest, runtime, device, described)
    if manifest.form == "torch":
        try:
            from serving.runtime.torch.loading import TorchGraphs  # no other artefact needs torch to be there
        except ImportError as error:
            remedy = "run `pip install torch==2.13.0`, or serve what `attendant export onnx` writes"
            raise MachineError(f"the package torch, for {manifest.name!r}", str(error), remedy) from error
        return Runners(folder, manifest, TorchGraphs(folder, manifest, threads, device).runner)
    load: Callable[[GraphSignature], Runner] = partial(_runner, folder, manifest, threads, runtime)
    if described is None:
        return Runners(folder, manifest, load)
    load = _engine_loader(manifest, Engines(folder, manifest, described), load)
    return Runners(folder, manifest, load, manifest.graphs_for("tensorrt"))


def engines_for(folder: Path, runtime: Runtime) -> EngineManifest | None:
    """The engines with which an artefact is run; none where it has none, or another runtime is requested.

    Raises:
        ArtefactError: they are of somebody else, and in no model repository.
    """
    described = EngineManifest.read(folder) if runtime == "auto" else None
    if described is not None and not is_laid_out(folder):
        require_known(folder)
    return described


def _engine_loader(
    manifest: Manifest, engines: Engines, otherwise: Callable[[GraphSignature], Runner]
) -> Callable[[GraphSignature], Runner]:
    def load_graph(signature: GraphSignature) -> Runner:
        return engines.runner(manifest.signature_for(signature.name, "tensorrt")) or otherwise(signature)

    return load_graph


def _own_kernels(manifest: Manifest, graph: str) -> Path | None:
    from serving.runtime.ort.kernels.library import FORM, kernels

    # In 8 bits ONNX Runtime multiplies by AMX where there is some, which ours do not; of 4 bits it does not, either.
    in_8_bits = graph == PREFILL or manifest.precision == "int8"
    if not manifest.has_form(graph, FORM) or (in_8_bits and has_instructions(AMX)):
        return None
    return kernels()


def _runner(folder: Path, manifest: Manifest, threads: int, runtime: Runtime, signature: GraphSignature) -> Runner:
    from serving.runtime.ort.kernels.library import FORM
    from serving.runtime.ort.runner import (
        OrtRunner,  # an image that holds TensorRT alone has no ONNX Runtime
        RowByRow,
    )

    path = folder / f"{signature.name}.onnx"
    own = _own_kernels(manifest, signature.name)
    form = "ort-cpu" if own is None else FORM
    lowered = folder / manifest.file_for(signature.name, form)
    if signature.aliases and lowered != path:
        runner = OrtRunner(lowered, manifest.signature_for(signature.name, form), threads, kernels=own)
        fused, ours = (
            manifest.fired(signature.name, form, name) for name in ("lower_cached_attention", "attend_in_cache")
        )
        return runner if ours and fused == ours else RowByRow(runner)
    if signature.aliases or runtime == "onnxruntime" or (runtime == "auto" and manifest.runtimes == ("onnxruntime",)):
        return OrtRunner(lowered, signature, threads, kernels=own)
    for_openvino = folder / manifest.file_for(signature.name, "openvino-cpu")
    if runtime == "auto" and "onnxruntime" in manifest.runtimes:
        bytes_of_float32 = (
            sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
            * _BYTES_OF_FLOAT32
            / manifest.bytes_per_weight
        )
        if bytes_of_float32 >= LARGE and openvino_is_installed():
            with suppress(ArtefactError):  # a custom module may hold an operator that OpenVINO lacks
                return OpenVinoRunner(for_openvino, signature, threads)
        return OrtRunner(lowered, signature, threads, kernels=own)
    return OpenVinoRunner(for_openvino, signature, threads, "bf16" if runtime == "openvino-bf16" else "f32")
