"""Every peer, one row each: in which environment it runs, which file answers, and which command makes what it loads.

A command's words may hold ``{source}``, transformers' folder with the shared weights, ``{out}``, where to write,
``{ours}``, our checkpoint made from that folder, and the interpreters ``{modern}``, ``{optimum}``, ``{llamacpp}``,
``{library}`` (of the shape) and ``{python}``.
"""

from dataclasses import dataclass, field
from typing import Any, get_args

from benchmarks.peers.shapes import Kind
from export.precision.precisions import PRECISIONS

OURS = "ours"
_GENAI = ("{modern}", "-m", "onnxruntime_genai.models.builder", "-i", "{source}", "-o", "{out}", "-e", "cpu")
_OPENVINO = ("-m", "benchmarks.peers.export_openvino")
_CT2 = ("{modern}", "-m", "ctranslate2.converters.transformers", "--model", "{source}", "--output_dir", "{out}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One row of the comparison.

    Attributes:
        kind: of the shapes that it runs.
        file: beside this one, with ``load``.
        environment: ``modern``, ``optimum`` or ``llamacpp``, under build/peers; ``ours`` is this interpreter.
        make: the command that writes what it loads; none where that is transformers' folder.
        product: the folder of what was made; peers that differ in options alone share one.
        not_for: shapes that it cannot run.
    """

    name: str
    kind: Kind
    file: str
    environment: str
    make: tuple[str, ...] = ()
    product: str = "source"
    options: dict[str, Any] = field(default_factory=dict)
    not_for: tuple[str, ...] = ()


def genai_peer(precision: str) -> Peer:
    return Peer(
        name=f"onnxruntime-genai {precision}",
        kind="decoder",
        file="genai_peer.py",
        environment="modern",
        make=(*_GENAI, "-p", precision, "-c", "{out}.cache"),
        product=f"genai-{precision}",
        not_for=("gpt2",),  # its builder knows no GPT-2
    )


def openvino_peer(kind: Kind, weights: str, precision: str) -> Peer:
    name = {"decoder": "OpenVINO GenAI", "translator": "OpenVINO (optimum)"}.get(kind, "OpenVINO")
    quantised = () if weights == "f32" else (weights,)
    environment = "{optimum}" if kind in {"decoder", "translator"} else "{library}"
    by_optimum = kind == "translator"
    return Peer(
        name=f"{name} {precision}" if weights == "f32" else f"{name} {weights}, {precision}",
        kind=kind,
        file="transformers_peer.py" if by_optimum else "openvino_peer.py",
        environment="optimum" if by_optimum else "modern",
        make=(environment, *_OPENVINO, kind, "{source}", "{out}", *quantised),
        product=f"openvino-{weights}",
        options={"precision": precision, "kind": kind, **({"openvino": True} if by_optimum else {})},
    )


def ctranslate2_peer(kind: Kind, precision: str) -> Peer:
    return Peer(
        name=f"CTranslate2 {precision}",
        kind=kind,
        file="ctranslate2_peer.py",
        environment="modern",
        make=(*_CT2, "--quantization", precision),
        product=f"ctranslate2-{precision}",
        options={"precision": precision, "kind": kind},
    )


def llamacpp_peer(weights: str) -> Peer:
    return Peer(
        name=f"llama.cpp {weights}",
        kind="decoder",
        file="llamacpp_peer.py",
        environment="llamacpp",
        make=("{llamacpp}", "-m", "benchmarks.peers.export_gguf", "{source}", "{out}", weights),
        product=f"llamacpp-{weights}",
    )


def transformers_peer(kind: Kind, precision: str, compiled: bool = False) -> Peer:
    return Peer(
        name=f"{'torch.compile' if compiled else 'transformers'} {precision}",
        kind=kind,
        file="transformers_peer.py",
        environment="modern",
        options={"precision": precision, "kind": kind, "compiled": compiled},
        not_for=("tnt-s",),  # timm's
    )


def ours(kind: Kind, words: tuple[str, ...], runtime: str) -> Peer:
    """An artefact of ours.

    Args:
        kind: of the shapes that it runs.
        words: for ``attendant export onnx``, beside model and folder, for instance ``--precision int8``.
        runtime: that executes it, of ``attendant.parameters.RUNTIMES``.
    """
    calibrated = any(word in PRECISIONS and PRECISIONS[word].calibrated for word in words)
    calibration = ("--calibration", "{source}/calibration.npz") if calibrated else ()
    title = " ".join(word.removeprefix("--") for word in words) or "fp32"
    return Peer(
        name=f"{OURS} {title}, {runtime}",
        kind=kind,
        file="attendant_peer.py",
        environment=OURS,
        make=("{python}", "-m", "attendant", "export", "onnx", "{ours}", "--out", "{out}", *words, *calibration),
        product="-".join(["artefact", *title.split()]),
        options={"runtime": runtime, "kind": kind},
    )


def peers_of(kind: Kind) -> list[Peer]:
    weights = [("f32", "f32"), ("f32", "bf16"), ("int8", "f32"), ("int8", "bf16")]
    if kind == "decoder":
        weights += [("int4", "f32"), ("int4", "bf16")]
    peers = [transformers_peer(kind, one) for one in ("float32", "bfloat16")]
    if kind in {"encoder", "vision"}:
        peers += [transformers_peer(kind, one, compiled=True) for one in ("float32", "bfloat16")]
    peers += [openvino_peer(kind, *one) for one in weights]
    if kind != "vision":
        peers += [ctranslate2_peer(kind, one) for one in ("float32", "int8")]
    if kind == "decoder":
        peers += [genai_peer(one) for one in ("fp32", "int8", "int4")]
        peers += [llamacpp_peer(one) for one in ("Q8_0", "Q4_0")]
    return peers


PEERS = [peer for kind in get_args(Kind) for peer in peers_of(kind)]
