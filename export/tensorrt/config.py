"""How engines are built."""

from dataclasses import dataclass, fields
from typing import Literal

from attendant.config import require
from attendant.engine_manifest import Hardware, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What is asked of the builder.

    Attributes:
        weights: whether they are fixed, which is fastest; can be replaced by those of another export of the same
            architecture (``export refit``); or are left out, and read from the ONNX graph when the engine is loaded.
        hardware: the GPUs that shall run the engines; all but this one cost speed.
        version_compatible: let later versions of TensorRT within this major one run them.
        memory_mb: most memory of the GPU that one engine may take, weights included; all of it if not given.
        tf32: let products of float32 be rounded to 10 bits of mantissa.
        attention: whose kernels compute it: TensorRT's own, or our plugins where there is one
            (docs/guides/tensorrt.md). Such an engine is bound to one compute capability, and its weights are fixed.
        append_in_plugin: let the plugin that attends at a decoder's single steps also rotate queries and keys and write
            the caches, instead of TensorRT's own cache update.
        allow_decomposed: accept attention that became no fused kernel but several layers, which hold all scores in
            between, instead of failing.

    Raises:
        ConfigError: no memory at all, plugins in an engine that shall run on other GPUs or get other weights, or caches
            written by plugins where there are none.
    """

    weights: Weights = "fixed"
    hardware: Hardware = "this-gpu"
    version_compatible: bool = False
    memory_mb: int | None = None
    tf32: bool = False
    attention: Literal["native", "plugin"] = "native"
    append_in_plugin: bool = False
    allow_decomposed: bool = False

    def __post_init__(self) -> None:
        require(self.memory_mb is None or self.memory_mb > 0, "memory_mb above 0", self.memory_mb)
        native = self.attention == "native"
        remedy = "build with --attention native, or without it"
        require(native or self.weights == "fixed", "fixed weights with --attention plugin", self.weights, remedy)
        require(native or self.hardware != "ampere-plus", "one capability for plugins' PTX", self.hardware, remedy)
        appends = self.append_in_plugin
        require(not (native and appends), "--attention plugin with --append-in-plugin", self.attention)
        compatible = self.version_compatible
        require(native or not compatible, "one version of TensorRT with plugins", "version_compatible", remedy)

    def flags(self) -> list[str]:
        """The words of a command line that say the same."""
        words = []
        for one in fields(self):
            value, flag = getattr(self, one.name), f"--{one.name.replace('_', '-')}"
            if value is True:
                words.append(flag)
            elif value != one.default:
                words += [flag, str(value)]
        return words
