"""What is imported, whatever it is: a Hugging Face folder, in integers or not, or a GGUF file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.checkpoints.importers.folder import generation_values, read_config
from models.checkpoints.importers.quantised.gguf_file import read_gguf
from models.checkpoints.importers.quantised.gguf_model import (
    gguf_config,
    gguf_generation,
    gguf_tensors,
    gguf_tokenizer,
)
from models.checkpoints.importers.quantised.scheme import dequantised
from models.checkpoints.importers.quantised.schemes import scheme_of, without_scheme
from models.checkpoints.importers.reader import TensorSource, opened_tensors
from models.checkpoints.importers.registry import architecture_of
from models.checkpoints.place import gguf_in


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """One model of another library.

    Attributes:
        place: the folder, or the GGUF file.
        values: the fields of its ``config.json``, or what they would be.
        generation: those of its ``generation_config.json``.
        tokenizer: what it states of its tokenizer itself, by the names of ``tokenizer_config.json``.
        tensors: its weights.
        quantised: whether the other library cannot read them without more.
        notes: what the user should read.
    """

    place: Path
    values: dict[str, Any]
    generation: Mapping[str, Any]
    tensors: TensorSource
    tokenizer: Mapping[str, Any] = field(default_factory=dict)
    quantised: bool = False
    notes: tuple[str, ...] = ()


@contextmanager
def opened_source(source: Path) -> Iterator[ImportSource]:
    """What lies at a place, for as long as the block lasts.

    Args:
        source: a folder, or a GGUF file.

    Raises:
        UnknownNameError, ConfigError, ArtefactError: as the parts of this do.
    """
    gguf = gguf_in(source)
    if gguf is not None:
        file = read_gguf(gguf)
        values = gguf_config(file)
        yield ImportSource(
            place=gguf,
            values=values,
            generation=gguf_generation(file),
            tokenizer=gguf_tokenizer(file),
            tensors=gguf_tensors(file, values),
            quantised=True,
        )
        return
    values = read_config(source)
    architecture, scheme = architecture_of(values), scheme_of(values, source)
    values = without_scheme(values)
    with opened_tensors(source) as stored:
        yield ImportSource(
            place=source,
            values=values,
            generation=generation_values(source, values),
            tensors=stored if scheme is None else dequantised(stored, scheme, architecture.input_first),
            quantised=scheme is not None,
            notes=(scheme.note,) if scheme and scheme.note else (),
        )
