"""Every peer, one row each: in which environment it runs, which file answers, and which command makes what it loads.

A command's words may hold ``{source}``, transformers' folder with the shared weights, ``{out}``, where to write,
``{ours}``, our checkpoint made from that folder, and the interpreters ``{modern}``, ``{optimum}`` and ``{python}``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.shapes import Kind
from export.precision.precisions import PRECISIONS

_TEXT = ("{optimum}", "benchmarks/peers/export_openvino_text.py")
_GENAI = ("{modern}", "-m", "onnxruntime_genai.models.builder", "-i", "{source}", "-o", "{out}", "-e", "cpu")
_IMAGES = ("{modern}", "benchmarks/peers/export_openvino_vision.py", "{source}", "{out}")
_CT2 = ("{modern}", "-m", "ctranslate2.converters.transformers", "--model", "{source}", "--output_dir", "{out}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One column of the comparison.

    Attributes:
        name: in tables.
        kind: of the shapes that it runs.
        file: beside this one, with ``load``.
        environment: ``modern`` or ``optimum``, under build/peers; ``ours`` is this interpreter.
        make: the command that writes what it loads; none where that is transformers' folder.
        product: the folder of what was made; peers that differ in options alone share one.
        options: for ``load``.
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


def _genai(precision: str) -> Peer:
    make = (*_GENAI, "-p", precision, "-c", "{out}.cache")
    return Peer(
        name=f"onnxruntime-genai {precision}",
        kind="decoder",
        file="genai_decoder.py",
        environment="modern",
        make=make,
        product=f"genai-{precision}",
        not_for=("gpt2",),  # its builder knows no GPT-2
    )


def _openvino(kind: Kind, weights: str, precision: str) -> Peer:
    name = {"decoder": "OpenVINO GenAI", "translator": "OpenVINO (optimum)", "vision": "OpenVINO"}[kind]
    quantised = () if weights == "f32" else (weights,)
    make = (*_IMAGES, *quantised) if kind == "vision" else (*_TEXT, kind, "{source}", "{out}", *quantised)
    return Peer(
        name=f"{name} {precision}" if weights == "f32" else f"{name} {weights}, {precision}",
        kind=kind,
        file="transformers_translator.py" if kind == "translator" else f"openvino_{kind}.py",
        environment="optimum" if kind == "translator" else "modern",
        make=make,
        product=f"openvino-{weights}",
        options={"precision": precision, **({"openvino": True} if kind == "translator" else {})},
    )


def _ctranslate2(kind: Kind, precision: str) -> Peer:
    return Peer(
        name=f"CTranslate2 {precision}",
        kind=kind,
        file=f"ctranslate2_{kind}.py",
        environment="modern",
        make=(*_CT2, "--quantization", precision),
        product=f"ctranslate2-{precision}",
        options={"precision": precision},
    )


def _transformers(kind: Kind, precision: str) -> Peer:
    return Peer(
        name=f"transformers {precision}",
        kind=kind,
        file=f"transformers_{kind}.py",
        environment="modern",
        options={"precision": precision},
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
        name=f"ours {title}, {runtime}",
        kind=kind,
        file="ours_vision.py" if kind == "vision" else "ours_decoder.py",
        environment="ours",
        make=("{python}", "-m", "attendant", "export", "onnx", "{ours}", "--out", "{out}", *words, *calibration),
        product="-".join(["artefact", *title.split()]),
        options={"runtime": runtime},
    )


def _all(kind: Kind) -> list[Peer]:
    weights = [("f32", "f32"), ("f32", "bf16"), ("int8", "f32"), ("int8", "bf16")]
    if kind == "decoder":
        weights += [("int4", "f32"), ("int4", "bf16")]
    peers = [_transformers(kind, one) for one in ("float32", "bfloat16")]
    peers += [_openvino(kind, *one) for one in weights]
    if kind != "vision":
        peers += [_ctranslate2(kind, one) for one in ("float32", "int8")]
    if kind == "decoder":
        peers += [_genai(one) for one in ("fp32", "int8", "int4")]
    return peers


PEERS = [*_all("decoder"), *_all("translator"), *_all("vision")]
