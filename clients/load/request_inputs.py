"""The inputs of a workload's requests: the model's own example, generated ones, or those in files."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import InputError
from attendant.tasks import TASKS
from attendant.tensor_files import read_npy_file
from attendant.tensor_names import PIXELS, TEXT_INPUT
from clients.images import file_pixels
from clients.load.datasets import MOST_LINES, Messages, read_lines, split_turns
from clients.load.scenario import Inputs, Workload
from clients.served_model import ServedModel

Array = NDArray[Any]
TEXT_TASKS = tuple(task.name for task in TASKS.values() if task.reads == "text")
PIXEL_TASKS = tuple(task.name for task in TASKS.values() if task.reads == "pixels")
GENERATIVE_TASKS = tuple(task.name for task in TASKS.values() if task.answers == "text")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST_WORD = 9
MOST_BYTES, MOST_WORDS = 1 << 30, 2_000_000
"""Of a file's arrays, or of generated inputs: all are kept in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInput:
    """The input of one request.

    Attributes:
        tensors: input name → array, rows in front.
        answer: the right one, as the example or the file says it; None where it does not.
        max_tokens: that this answer was made with.
        input_tokens: how many tokens it has; 0 where that is not known.
        images: in it.
        messages: of a conversation, in place of tensors; of OpenAI's protocol.
    """

    tensors: Mapping[str, Array]
    answer: Any = None
    max_tokens: int | None = None
    input_tokens: int = 0
    images: int = 0
    messages: Messages = ()

    @property
    def text(self) -> str:
        """Its first text.

        Raises:
            InputError: it has none.
        """
        if self.messages:
            raise InputError("a text", "a conversation", "send it to OpenAI's chat: --transport openai --endpoint chat")
        if TEXT_INPUT not in self.tensors:
            raise InputError("a text", f"the inputs {sorted(self.tensors)}", "choose another transport")
        return str(self.tensors[TEXT_INPUT].reshape(-1)[0].decode())


def create_inputs(workload: Workload, model: ServedModel | None, rng: np.random.Generator) -> list[RequestInput]:
    """The inputs that a workload's requests take in turn.

    Args:
        workload: that says where they come from.
        model: what the server says of its model; None where only texts can be sent.
        rng: random ones are drawn from.

    Raises:
        InputError: the model has no example, a file cannot be read, or does not fit.
    """
    inputs = workload.inputs
    if inputs.kind == "texts":
        created = [RequestInput(tensors={TEXT_INPUT: text_tensor([text])}) for text in inputs.texts]
    elif inputs.kind == "files":
        created = [one for name in inputs.files for one in _read_file(Path(name), model)]
        if not created:
            raise InputError("inputs in the files", f"none in {list(inputs.files)}", "write one a line, or a row")
    elif model is None:
        raise InputError("inputs of the kind texts or files", repr(inputs.kind), "such a server describes no inputs")
    elif inputs.kind == "example":
        example = model.parameters.get("example") or {}
        if not example.get("inputs"):
            raise InputError(f"an example in the configuration of {model.name!r}", "none", "choose other inputs.kind")
        created = [_convert_input(dict(example["inputs"]), example.get("answer"), model)]
    else:
        names = (TEXT_INPUT,) if model.task in TEXT_TASKS else (PIXELS,) if model.task in PIXEL_TASKS else model.inputs
        created = [
            RequestInput(tensors={name: _generate_tensor(inputs, model, name, rng) for name in names})
            for _ in range(inputs.number if inputs.kind == "random" else 1)
        ]
    if model is None or model.task not in PIXEL_TASKS:
        return created
    return [replace(one, images=len(one.tensors[PIXELS]) if PIXELS in one.tensors else 0) for one in created]


def _convert_input(
    values: dict[str, Any], answer: Any, model: ServedModel | None, where: str = "the model's example"
) -> RequestInput:
    limit = values.pop("max_tokens", None)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise InputError(f"max_tokens of at least 1 in {where}", f"{limit!r:.40}", "correct it")
    if "text" in values:
        values[TEXT_INPUT] = values.pop("text")
    tensors = {name: _convert_tensor(name, value, model, where) for name, value in values.items()}
    return RequestInput(tensors=tensors, answer=answer, max_tokens=limit)


def _convert_tensor(name: str, value: Any, model: ServedModel | None, where: str) -> Array:
    if isinstance(value, str) and (model is None or model.dtypes.get(name, "object") == "object"):
        return text_tensor([value])
    if name != TEXT_INPUT and (model is None or name not in model.inputs):
        raise InputError(f"inputs of the names {sorted(model.inputs) if model else [TEXT_INPUT]}", name, "correct it")
    if model is None or name not in model.inputs or model.dtypes[name] == "object":
        return text_tensor(_flat_texts(name, value, where))
    shape = model.inputs[name]
    try:
        row = np.asarray(value)
        if row.dtype.kind not in "biuf":
            raise ValueError(f"{value!r:.40}")
        row = np.asarray(value, model.dtypes[name])
        return (row.reshape(shape) if -1 not in shape else row)[None]
    except (TypeError, ValueError, OverflowError) as error:
        expected = f"{name} of {model.dtypes[name]} {list(shape)} in {where}"
        raise InputError(expected, str(error)[:200], "correct it") from error


def _flat_texts(name: str, value: Any, where: str) -> list[str]:
    found, rest = list[str](), [value]
    while rest:
        match rest.pop():
            case str() as text:
                found.append(text)
            case list() as values:
                rest.extend(reversed(values))
            case other:
                raise InputError(f"{name} of texts in {where}", f"{other!r:.40}", "correct it")
    return found


def _read_file(path: Path, model: ServedModel | None) -> Iterator[RequestInput]:
    if not path.is_file():
        raise InputError(f"a file of inputs at {path}", "none", "correct inputs.files")
    if path.suffix == ".jsonl":
        for where, values in read_lines(path):
            yield from _convert_line(values, model, where)
    elif model is None:
        raise InputError("inputs as .jsonl, each with a text", str(path), "write them so")
    elif path.suffix == ".npy":
        name = PIXELS if PIXELS in model.inputs else next(iter(model.inputs))
        rows = read_npy_file(path, MOST_BYTES)
        if not rows.ndim or len(rows) > MOST_LINES:
            expected = f"up to {MOST_LINES} rows, one an input, in a .npy file at {path}"
            raise InputError(expected, f"the shape {list(rows.shape)}", "write it so")
        for row in rows:
            yield RequestInput(tensors={name: np.ascontiguousarray(row[None], model.dtypes[name])})
    else:
        yield RequestInput(tensors={PIXELS: file_pixels(model, path)[None]})


def _convert_line(values: dict[str, Any], model: ServedModel | None, where: str) -> Iterator[RequestInput]:
    answer = values.pop("answer", None)
    if "messages" not in values:
        yield _convert_input(values, answer, model, where)
        return
    turns = split_turns(values.pop("messages"), where)
    if model is not None:
        raise InputError(f"tensors or a text in {where}", "a conversation", "send it with --transport openai")
    last = replace(_convert_input(values, answer, model, where), messages=turns[-1])
    yield from (replace(last, messages=turn, answer=None) for turn in turns[:-1])
    yield last


def _generate_tensor(inputs: Inputs, model: ServedModel, name: str, rng: np.random.Generator) -> Array:
    dtype, sizes = model.dtypes[name], [inputs.size if size < 0 else size for size in model.inputs[name]]
    shape = [inputs.rows, *sizes] if model.max_batch or model.task in (*GENERATIVE_TASKS, *PIXEL_TASKS) else sizes
    if name == PIXELS and "image_size" in model.parameters:
        side = int(model.parameters["image_size"])
        shape = [inputs.rows, *(side if size < 0 else size for size in model.inputs[name])]
    made = math.prod(shape) * (inputs.number if inputs.kind == "random" else 1)
    amount, most = (
        (made * inputs.size, MOST_WORDS) if dtype == "object" else (made * np.dtype(dtype).itemsize, MOST_BYTES)
    )
    if amount > most:
        unit = "words" if dtype == "object" else "bytes"
        raise InputError(f"at most {most} {unit} of {name} in all inputs", str(amount), "lower number, rows or size")
    if dtype == "object":
        texts = [_generate_text(inputs, rng) for _ in range(math.prod(shape))]
        return text_tensor(texts).reshape(shape)
    if inputs.kind == "zeros":
        return np.zeros(shape, dtype)
    kind = np.dtype(dtype)
    return rng.random(shape).astype(kind) if kind.kind == "f" else rng.integers(0, 2, shape).astype(kind)


def _generate_text(inputs: Inputs, rng: np.random.Generator) -> str:
    if inputs.kind == "zeros":
        return " ".join("a" * inputs.size)
    lengths = rng.integers(1, LONGEST_WORD + 1, inputs.size)
    return " ".join("".join(rng.choice(list(LETTERS), length)) for length in lengths)


def text_tensor(texts: Sequence[str]) -> Array:
    """Texts as a tensor of bytes, object ``[N, 1]``.

    Raises:
        InputError: one holds half of a character, which UTF-8 has not.
    """
    try:
        return np.array([[text.encode()] for text in texts], dtype=object)
    except UnicodeEncodeError as error:
        raise InputError("texts of whole characters", f"half of one: {error}", "correct the text") from error
