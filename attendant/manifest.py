"""What travels with an artefact: its graphs, the files beside them, their hashes, limits and versions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from attendant.errors import ArtefactError
from attendant.names import is_detail_name, is_plain_name, require_plain_name
from attendant.onnx_file import check_onnx_file
from attendant.records import FormatError, read_record, write_record
from attendant.signature import DType, GraphSignature, TensorSpec
from attendant.suppression import suppression_fault
from attendant.tensor_names import PREFILL

MANIFEST_NAME = "manifest.json"
FORMAT = 5
SUFFIXES = (".data", ".jinja", ".json", ".onnx", ".safetensors", ".spm", ".txt")
"""What a file of an artefact may end with; none is code."""
REPRODUCTION_NAME = "reproduce.sh"
"""Makes the artefact again, by hand: nothing of ours runs it."""
RESERVED = frozenset({MANIFEST_NAME, "engine.json"})
"""Files beside an artefact's own, which no hash in a manifest may stand for."""
_EXPORT_AGAIN = "export the model again"
_SHA256 = re.compile(r"[0-9a-f]{64}")
Form = Literal["onnx", "torch"]
"""What an artefact's graphs are; also the verb of `attendant export` that writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A graph rewritten for one runtime, with the tensors of the one that it was made from.

    Attributes:
        graph: the name of the graph.
        target: the runtime.
        file: the graph's file; empty where no pass had anything to do.
        passes: what each pass did: ``name``, how often it ``fired``, and its ``refusals``.
        types: input or output → its element type, where that is another than the graph's: of caches that are kept as
            the integers to which the graph rounds what it caches, or of memories in half precision.
    """

    graph: str
    target: str
    file: str
    passes: tuple[dict[str, Any], ...] = ()
    types: dict[str, DType] = field(default_factory=dict)


ROUNDED = 0.5
"""What an example says ``within`` of a narrow precision: nonsense is as far from an answer as that is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The one description of an artefact that later stages read.

    Attributes:
        name: the model's name; also its name in the Triton repository.
        task: what the model is for (``classify``, ``translate``).
        family: the architecture (``vit``, ``seq2seq``).
        config: the architecture's configuration.
        graphs: the signature of each graph; of the form ``onnx``, the file of graph ``x`` is ``x.onnx``.
        files: file name → SHA-256, graphs and companions (``tokenizer.json``) alike.
        details: what the task needs at serving time: labels, preprocessing, token ids, lengths; names in lower case.
        example: one request and its right answer; the canary of every server. Where numbers are rounded it says
            ``within`` which share of its length an answer of values may be off.
        versions: package → version, of the tools that wrote the artefact.
        lowered: graphs rewritten for one runtime.
        weights: graph → name of a weight in its file → the checkpoint's parameters that it was computed from. A name
            that ends in ``.transposed`` is the transpose of one; what was computed otherwise needs another export.
        precision: of its graphs, as ``--precision`` calls it.
        runtimes: of a CPU, those that ``auto`` chooses among; ``onnxruntime`` is missing where it lacks operators.
        bytes_per_weight: of the graphs' products.
        types: graph → weight → element type, short vectors apart.
        passes: graph → what each pass of the precision did: ``name``, how often it ``fired``, its ``refusals``, and
            ``kept``: which places it left in float32, or in more bits than the others, and why.
        source: the checkpoint it was made from, as the user named it.
        fingerprint: hash over all that went into the artefact; an equal one means nothing is to be done.
        form: ONNX graphs, or a checkpoint whose modules torch runs.
    """

    name: str
    task: str
    family: str
    config: dict[str, Any]
    graphs: tuple[GraphSignature, ...]
    files: dict[str, str]
    details: dict[str, Any] = field(default_factory=dict)
    example: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    lowered: tuple[Lowered, ...] = ()
    weights: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    precision: str = "fp32"
    runtimes: tuple[str, ...] = ("onnxruntime", "openvino")
    bytes_per_weight: float = 4.0
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    passes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    source: str = ""
    fingerprint: str = ""
    form: Form = "onnx"

    def __post_init__(self) -> None:
        for name in (self.name, *(graph.name for graph in self.graphs)):
            require_plain_name(name)
        for name, sha256 in self.files.items():
            self._require(
                is_plain_name(name) and (name.endswith(SUFFIXES) or name == REPRODUCTION_NAME) and name not in RESERVED,
                f"plain names of files that end in one of {', '.join(SUFFIXES)}",
                name,
            )
            self._require(bool(_SHA256.fullmatch(sha256)), f"a SHA-256 of {name}", sha256)
        for lowered in self.lowered:
            if lowered.file:
                require_plain_name(lowered.file)
        for name in self.details:
            self._require(is_detail_name(name), "names of details in lower case: letters, digits and _", name)
        vocabularies = [graph.outputs[0].axes[-1] for graph in self.graphs if graph.name == "decoder" and graph.outputs]
        for vocabulary in vocabularies:
            fault = suppression_fault(self.details, vocabulary) if isinstance(vocabulary, int) else ""
            self._require(not fault, "suppressed_tokens that leave a token to say", fault)
        self._require(self.bytes_per_weight > 0, "bytes_per_weight above 0", self.bytes_per_weight)

    def _require(self, condition: bool, expected: str, found: object) -> None:
        if not condition:
            raise ArtefactError(f"{expected} in the manifest of {self.name!r}", repr(found)[:100], _EXPORT_AGAIN)

    @property
    def input_vocabulary(self) -> int | None:
        """How many tokens the model that reads text knows; none where its configuration does not say."""
        found = self.config.get("source_vocabulary_size", self.config.get("vocabulary_size"))
        return found if type(found) is int else None

    def graph(self, name: str) -> GraphSignature:
        """The signature of the graph of that name.

        Raises:
            ArtefactError: the manifest names no such graph.
        """
        for signature in self.graphs:
            if signature.name == name:
                return signature
        raise ArtefactError(
            f"a graph named {name!r} in the manifest of {self.name!r}",
            f"{[signature.name for signature in self.graphs]}",
            _EXPORT_AGAIN,
        )

    def graphs_for(self, target: str) -> tuple[GraphSignature, ...]:
        """The graphs that a target runs: TensorRT's engine of the decoder has a profile of its own for prompts."""
        return tuple(one for one in self.graphs if one.name != PREFILL or target != "tensorrt")

    def has_form(self, graph: str, target: str) -> bool:
        """Whether a graph has a form of its own for a target."""
        return self._lowered(graph, target) is not None

    def fired(self, graph: str, target: str, rewrite: str) -> int:
        """How many places of a graph's form for a target one of its passes rewrote."""
        lowered = self._lowered(graph, target)
        counts = [] if lowered is None else [one.get("fired") for one in lowered.passes if one.get("name") == rewrite]
        return sum(count for count in counts if isinstance(count, int))

    def file_for(self, graph: str, target: str) -> str:
        """The file of a graph's form for a target: lowered where there is one, else the standard's."""
        lowered = self._lowered(graph, target)
        return f"{graph}.onnx" if lowered is None else lowered.file

    def signature_for(self, graph: str, target: str) -> GraphSignature:
        """The signature of :meth:`file_for`: the graph's own, but for the types that the lowered form has.

        Raises:
            ArtefactError: the manifest names no such graph.
        """
        signature, lowered = self.graph(graph), self._lowered(graph, target)
        types = {} if lowered is None else lowered.types

        def typed(spec: TensorSpec) -> TensorSpec:
            return replace(spec, dtype=types.get(spec.name, spec.dtype))

        inputs, outputs = (tuple(map(typed, specs)) for specs in (signature.inputs, signature.outputs))
        return replace(signature, inputs=inputs, outputs=outputs)

    def _lowered(self, graph: str, target: str) -> Lowered | None:
        return next((one for one in self.lowered if (one.graph, one.target) == (graph, target) and one.file), None)

    def write(self, folder: Path) -> None:
        """Write ``manifest.json`` into the folder, in one step."""
        write_record(self, folder / MANIFEST_NAME, FORMAT)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read ``manifest.json`` from the folder.

        Raises:
            ArtefactError: it is missing, is not JSON, is no manifest of this format, or names what none may hold.
        """
        path = folder / MANIFEST_NAME
        remedy = f"write it with `attendant export onnx <model> --out {folder}`"
        try:
            return read_record(cls, path, FORMAT)
        except FormatError as error:
            message = f"{error}; {remedy}"
            raise ArtefactError(f"format {FORMAT} of {path}", str(error), remedy, message=message) from error
        except FileNotFoundError as error:
            missing = f"no artefact at {folder}: {MANIFEST_NAME} is missing; {remedy}"
            raise ArtefactError(f"a readable manifest at {path}", "no file", remedy, message=missing) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ArtefactError(f"a readable manifest at {path}", str(error), remedy) from error
        except ValueError as error:
            raise ArtefactError(f"a complete manifest at {path}", str(error), remedy) from error

    @classmethod
    def read_onnx(cls, folder: Path) -> Manifest:
        """:meth:`read` and :meth:`verify`, for what needs ONNX graphs.

        Raises:
            ArtefactError: as these do, or the artefact is of another form.
        """
        manifest = cls.read(folder)
        if manifest.form != "onnx":
            found, remedy = f"an artefact of `export {manifest.form}`", "name one of `attendant export onnx`"
            raise ArtefactError(f"ONNX graphs in {folder}", found, remedy)
        manifest.verify(folder)
        return manifest

    @property
    def sha256(self) -> str:
        """Of all files together: artefacts that differ in one differ in it."""
        files = json.dumps(self.files, sort_keys=True)
        return f"sha256:{hashlib.sha256(files.encode()).hexdigest()}"

    @contextmanager
    def lasting(self, folder: Path) -> Iterator[None]:
        """Hold every file to its hash before a block that loads them, and see after it that they are still this one's.

        Raises:
            ArtefactError: as :meth:`verify`; or another artefact was put in the folder's place meanwhile.
        """
        self.verify(folder)
        yield
        if Manifest.read(folder) != self:
            raise ArtefactError(f"one artefact in {folder} while it is loaded", "another meanwhile", "load it again")

    def verify(self, folder: Path, hashed: Callable[[Path], str] | None = None) -> None:
        """Hold every file to the hash that the manifest states, and see that none leads out of the folder.

        Args:
            folder: the artefact.
            hashed: from a file to its SHA-256, if not :func:`sha256_of`.

        Raises:
            ArtefactError: a file is missing or differs, is a link to somewhere else, takes weights from a file that no
                hash holds, or is a graph that nothing should open (:mod:`attendant.onnx_file`).
        """
        self._require_inside(folder)
        graphs = {f"{graph.name}.onnx" for graph in self.graphs} if self.form == "onnx" else set()
        graphs |= {lowered.file for lowered in self.lowered if lowered.file}
        for name in sorted(graphs):
            self._require(name in self.files, "a hash of every graph", f"none of {name}")
        for name, expected in self.files.items():
            path = folder / name
            found = (hashed or sha256_of)(path) if path.is_file() else "no file"
            if found != expected:
                raise ArtefactError(
                    f"{path} with SHA-256 {expected[:12]}…, as its manifest says",
                    found[:12] + "…" if path.is_file() else found,
                    f"export again: `attendant export {self.form} {self.name} --out {folder}`",
                )
        for name in sorted(graphs | {name for name in self.files if name.endswith(".onnx")}):
            self._require_known_weights(folder / name)

    def _require_inside(self, folder: Path) -> None:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_symlink() and path.resolve().parent != folder.resolve():
                raise ArtefactError(f"files of its own in {folder}", f"a link at {path.name}", "copy the file itself")

    def _require_known_weights(self, path: Path) -> None:
        if unknown := sorted(check_onnx_file(path) - self.files.keys()):
            raise ArtefactError(
                f"{path} to take its weights from files of its manifest", repr(unknown[0])[:100], _EXPORT_AGAIN
            )


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
