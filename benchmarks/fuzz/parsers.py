"""Files that are read in this process: manifests, configurations, weights, tokenizers, images.

Each target is a function from bytes to nothing; only an error of ours may come out of it. Every input is written down
before it is read, so that one that ends the process is not lost.
"""

import io
import json
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from attendant.errors import AttendantError
from attendant.manifest import MANIFEST_NAME, Manifest
from attendant.tokenization import load_tokenizer
from benchmarks.chaos.processes import ServerProcess
from benchmarks.fuzz.drawing import draw_inputs
from benchmarks.fuzz.outcome import HANG_S, Budget, Outcome
from benchmarks.fuzz.strategies import changed, damaged, write_json
from models.checkpoints.blank import blank
from models.checkpoints.importers.architecture import ReferenceModel
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.folder import generation_values, read_config
from models.checkpoints.importers.reader import SINGLE_NAME, opened_tensors
from models.checkpoints.importers.registry import architecture_of
from models.registry import FAMILIES
from serving.gateway.errors import RefusedError
from serving.gateway.image_process import Wanted, decode_pixels
from serving.gateway.settings import GatewaySettings

SAMPLE_EVERY = 500
_PREPROCESSING = {
    "mode": "L",
    "size": [16, 16],
    "resample": "bilinear",
    "scale": 1 / 255,
    "mean": 0.5,
    "deviation": 0.5,
}
_WANTED = Wanted("one", (1, 16, 16), "float32", _PREPROCESSING, GatewaySettings().image_pixels)


@dataclass(frozen=True, slots=True)
class Parser:
    """A kind of file, nearly right inputs of it, and what reads it from a folder."""

    name: str
    file: str
    inputs: st.SearchStrategy[bytes]
    read: Callable[[Path], None]


class HangError(BaseException):
    """An input that is read for too long; not an Exception, which a reader could take for its own."""


def fuzz_parser(parser: Parser, budget: Budget, folder: Path, kept: Path, number: int) -> Outcome:
    """Read inputs until the budget is spent.

    Args:
        parser: that reads them.
        budget: how many, and for how long.
        folder: in which the file is written anew each time.
        kept: where failing inputs are kept.
        number: the seed.
    """
    outcome = Outcome(parser.name, kept, number)
    path, began = folder / parser.file, time.monotonic()
    own = ServerProcess(os.getpid(), 0, "fuzz")

    def run(data: bytes) -> None:
        path.write_bytes(data)
        answer, failure, then = "read", "", time.monotonic()
        try:
            with _alarm(HANG_S):
                parser.read(folder)
        except (AttendantError, RefusedError) as error:
            answer = type(error).__name__
        except HangError:
            answer, failure = "hang", "hang"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            answer, failure = f"{type(error).__name__}: {str(error)[:200]}", type(error).__name__
        outcome.add(failure if failure else answer, data, time.monotonic() - then, failure)
        if failure:
            outcome.examples[failure] = answer
        if outcome.count % SAMPLE_EVERY == 0:
            outcome.rss_mb.append(own.resident_mb)

    draw_inputs(parser.inputs, budget, number, run)
    outcome.seconds = time.monotonic() - began
    return outcome


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def create_parsers(artefact: Path) -> list[Parser]:
    """All of them.

    Args:
        artefact: of a text model, whose manifest and tokenizer are what is nearly right.
    """
    manifest = json.loads((artefact / MANIFEST_NAME).read_bytes())
    tokenizer = json.loads((artefact / "tokenizer.json").read_bytes())
    configs = [json.loads(json.dumps(config, default=str)) for config in _configurations()]
    return [
        Parser("manifest", MANIFEST_NAME, changed(manifest).map(write_json) | damaged(write_json(manifest)), _manifest),
        Parser("config", "config.json", st.one_of([changed(one).map(write_json) for one in configs]), _config),
        Parser("safetensors", SINGLE_NAME, _safetensors(), _weights),
        Parser("tokenizer", "tokenizer.json", changed(tokenizer).map(write_json), _tokenizer),
        Parser("image", "image", st.one_of([damaged(file) for file in sample_images()]), _image),
    ]


def _manifest(folder: Path) -> None:
    Manifest.read(folder)


def _config(folder: Path) -> None:
    values = read_config(folder)
    architecture = architecture_of(values)
    reference = ReferenceModel(
        fields=Fields(values), values=values, generation=generation_values(folder, values), asked_length=None
    )
    family = FAMILIES[architecture.family]
    config = architecture.config_from(reference)
    reference.fields.refuse_rest()
    blank(lambda: family.build(config))


def _weights(folder: Path) -> None:
    with opened_tensors(folder) as tensors:
        for name in tensors.shapes:
            tensors.read(name)


def _tokenizer(folder: Path) -> None:
    load_tokenizer(folder).encode("3rd of march 1997", 64)


def _image(folder: Path) -> None:
    decode_pixels((folder / "image").read_bytes(), _WANTED)


def _configurations() -> Iterator[dict[str, Any]]:
    from transformers import BertConfig, GPT2Config, LlamaConfig, T5Config, ViTConfig

    small: dict[str, Any] = {
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    yield {**GPT2Config(n_layer=2, n_embd=16, n_head=2).to_dict(), "architectures": ["GPT2LMHeadModel"]}
    yield {**LlamaConfig(**small, num_key_value_heads=1).to_dict(), "architectures": ["LlamaForCausalLM"]}
    yield {**BertConfig(**small).to_dict(), "architectures": ["BertModel"]}
    yield {**ViTConfig(**small, image_size=16, patch_size=4).to_dict(), "architectures": ["ViTForImageClassification"]}
    t5 = T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
    yield {**t5.to_dict(), "architectures": ["T5ForConditionalGeneration"]}


@st.composite
def _safetensors(draw: st.DrawFn) -> bytes:
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "F16", "shape": [4], "data_offsets": [24, 32]},
    }
    text = write_json(draw(changed(header)))
    length = draw(st.one_of(st.just(len(text)), st.just(len(text)), st.sampled_from([0, 1, 2**31, 2**63, 2**64 - 1])))
    body = draw(st.sampled_from([bytes(32), bytes(31), b"", bytes(64)]))
    data = struct.pack("<Q", length) + text + body
    return draw(damaged(data)) if draw(st.booleans()) else data


def sample_images() -> list[bytes]:
    """One small image in each format that the gateway reads."""
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8))
    files = []
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP"):
        file = io.BytesIO()
        image.save(file, kind)
        files.append(file.getvalue())
    return files
