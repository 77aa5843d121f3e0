"""What travels beside TensorRT engines: what each was built from, with what, and for which sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from attendant.errors import ArtefactError
from attendant.manifest import Lowered, Manifest, sha256_of
from attendant.names import require_plain_name
from attendant.records import read_record, write_record

ENGINE_MANIFEST_NAME = "engine.json"
PLAN_SUFFIX = ".plan"
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}")
FORMAT = 1
_MOST_BYTES = 1 << 22
"""Of a manifest: a hundred layers' caches take some 50 kB."""

EVERY, DECODE, PREFILL = "every", "decode", "prefill"
"""Profiles: of every run of a graph; of a cached decoder's single steps; of its steps over several positions."""

NATIVE = "native"
"""Attention that TensorRT's own kernels compute."""
DECOMPOSED = "decomposed"
"""Attention that TensorRT computes out of several layers, which hold the scores in between."""

Hardware = Literal["this-gpu", "same-capability", "ampere-plus"]
"""The GPUs that run an engine: the kind that it was built on, those of its compute capability, or from Ampere on."""
Weights = Literal["fixed", "refittable", "stripped"]
"""Whether an engine's weights can be replaced, or have to be filled in before it runs."""


def stem(graph: str, phase: str) -> str:
    """What the files of a graph, or of one of its phases, begin with."""
    return f"{graph}.{phase}" if phase else graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What an engine was built with, or a machine that shall run it.

    Attributes:
        tensorrt: version of the libraries, ``11.4.0``.
        cuda: newest CUDA that the driver knows, ``13.3``.
        driver: version of the kernel module; empty where it does not say.
        gpu: the name of the GPU.
        capability: its compute capability, ``9.0``.
    """

    tensorrt: str
    cuda: str
    driver: str
    gpu: str
    capability: str

    def __post_init__(self) -> None:
        for version in (self.tensorrt, self.cuda, self.capability):
            if not _VERSION.fullmatch(version):
                remedy = "build the engines again: `attendant export tensorrt`"
                raise ArtefactError("versions of numbers with points between them", repr(version)[:100], remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The sizes of one optimization profile.

    Attributes:
        name: ``every``, ``decode`` or ``prefill``.
        shapes: input → its min, opt and max shape.
    """

    name: str
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine of one graph.

    Attributes:
        graph: the graph's name.
        phase: which runs of the graph it is for, where others have an engine of their own: ``decode`` or ``prefill``.
        sha256: of its file.
        source: the ONNX file of the artefact that it was built from, or that its form with plugins was made from.
        built_from: file → SHA-256, of that file and its weights.
        profiles: in the engine's own order.
        aliases: output → input, where the engine wants both at one address.
        weights: whether they can, or must, be filled in.
        hardware: the GPUs that it runs on.
        version_compatible: whether later versions of TensorRT within the same major one run it.
        plugins: plugin → SHA-256 of the code that was embedded.
        attention: what computes it, ``native``, ``decomposed`` or a plugin → how many of the engine's layers.
        lowered: the form with plugins that it was built from; none where TensorRT computes attention itself.
        device_bytes: memory that one run needs, weights and buffers of the caller's apart.
        weight_bytes: of its weights.
    """

    graph: str
    sha256: str
    source: str
    built_from: dict[str, str]
    profiles: tuple[Profile, ...]
    phase: str = ""
    aliases: dict[str, str] = field(default_factory=dict)
    weights: Weights = "fixed"
    hardware: Hardware = "this-gpu"
    version_compatible: bool = False
    plugins: dict[str, str] = field(default_factory=dict)
    attention: dict[str, int] = field(default_factory=dict)
    lowered: Lowered | None = None
    device_bytes: int = 0
    weight_bytes: int = 0

    def __post_init__(self) -> None:
        for name in (self.graph, self.source, *self.built_from, *((self.phase,) if self.phase else ())):
            require_plain_name(name)
        if self.lowered is not None and self.lowered.file:
            require_plain_name(self.lowered.file)

    @property
    def file(self) -> str:
        """The name of the engine's file: ``<graph>.plan``, or ``<graph>.<phase>.plan``."""
        return f"{stem(self.graph, self.phase)}{PLAN_SUFFIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineManifest:
    """Every engine of an artefact.

    Attributes:
        name: the model's.
        platform: what they were built with, and on.
        engines: one for each graph that was built, or one for each of its phases.
        command: that builds them again.
    """

    name: str
    platform: Platform
    engines: tuple[Engine, ...]
    command: str

    def __post_init__(self) -> None:
        require_plain_name(self.name)

    def engine(self, graph: str, phase: str = "") -> Engine | None:
        """The engine of a graph or of one of its phases; none where that was not built."""
        return next((engine for engine in self.of(graph) if engine.phase == phase), None)

    def of(self, graph: str) -> tuple[Engine, ...]:
        """The engines of a graph, which together run it."""
        return tuple(engine for engine in self.engines if engine.graph == graph)

    def write(self, folder: Path) -> None:
        """Write ``engine.json`` into the folder."""
        write_record(self, folder / ENGINE_MANIFEST_NAME, FORMAT)

    @classmethod
    def read(cls, folder: Path) -> EngineManifest | None:
        """Read ``engine.json`` from the folder; none where there is none.

        Raises:
            ArtefactError: it is not JSON, or lacks a part.
        """
        path = folder / ENGINE_MANIFEST_NAME
        if not path.is_file():
            return None
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES} bytes")
            return read_record(cls, path, FORMAT)
        except (OSError, ValueError) as error:
            remedy = "build the engines again: `attendant export tensorrt`"
            raise ArtefactError(f"a whole {path}", f"{type(error).__name__}: {error}", remedy) from error

    def verify(self, folder: Path, manifest: Manifest) -> None:
        """Hold every engine to its hash, and to the graphs that lie beside it.

        Raises:
            ArtefactError: a file is missing or differs, or an engine was built from another export.
        """
        for engine in self.engines:
            path = folder / engine.file
            found = sha256_of(path) if path.is_file() else "no file"
            if found != engine.sha256:
                raise self._refusal(f"{path} with SHA-256 {engine.sha256[:12]}…", found[:12])
            if engine.source not in engine.built_from:  # whose weights may fill it
                raise self._refusal(f"a hash of {engine.source}, which {path} was built from", "none")
            for name, expected in engine.built_from.items():
                if manifest.files.get(name) != expected:
                    there = manifest.files.get(name, "no such file")[:12]
                    raise self._refusal(
                        f"{path}, which was built from {name} {expected[:12]}…", f"beside {name} {there}"
                    )

    def _refusal(self, expected: str, found: str) -> ArtefactError:
        return ArtefactError(expected, found, f"build the engines of {self.name!r} again: `{self.command}`")
