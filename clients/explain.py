"""What a served model attends to when it answers one image or one text, as arrays that a file can hold."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from attendant.alignments import join_alignments
from attendant.errors import InputError, OutputError
from attendant.output_files import replaced_file
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import ALIGNMENT, LOGITS, OUTPUT_IDS
from clients.answer import Delta
from clients.caption import Captioner
from clients.classify import Classifier
from clients.generate import Generator
from clients.served_model import ServedModel
from clients.statuses import reading
from clients.translate import Translator
from clients.triton_client import Array, TritonClient

LONGEST = 32


def longest_explained(model: ServedModel) -> int:
    """How many tokens of a language model's answer are explained; the prompt needs room, too."""
    return min(LONGEST, max(1, int(model.parameters.get("max_length", LONGEST)) // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One answer and what it rests on.

    Attributes:
        answer: the most probable label, or the text.
        arrays: of a classifier its outputs without the batch; of a decoder ``alignment`` ``[T, S]`` and the ids of its
            T tokens. S is a source's positions, or those of a prompt and of the answer's tokens before the last.
    """

    answer: str
    arrays: dict[str, Array]

    def save(self, path: Path) -> None:
        """Write the arrays and the answer as one ``.npz`` file.

        Raises:
            OutputError: the file cannot be written.
        """
        written = BytesIO()  # zipfile, which fails to write, fails once more as it is dropped, with a traceback
        np.savez(written, answer=np.array(self.answer), **self.arrays)
        try:
            with replaced_file(path) as staged:
                staged.write_bytes(written.getbuffer())
        except OSError as error:
            raise OutputError(f"a place to write at {path}", str(error), "correct --out") from error


async def explain(client: TritonClient, name: str, subject: str) -> Explanation:
    """Request an explanation from a model of any task that has one.

    Args:
        client: of the server.
        name: the model.
        subject: an image file, or of a translator or a language model a text.

    Raises:
        UnknownNameError: the server has no such model.
        InputError: the model or its task cannot be explained, or the server refused the subject.
    """
    model = await client.model(name)
    if model.task == "classify":
        classifier = Classifier(client, model)
        arrays = {name: array[0] for name, array in (await classifier.explain_file(Path(subject))).items()}
        with reading(name, client.server):
            return Explanation(answer=classifier.guesses(arrays[LOGITS])[0].label, arrays=arrays)
    if model.task == "caption":
        return await _explain_text(Captioner(client, model).stream_file(Path(subject), SamplingParams(explain=True)))
    if model.task == "translate":
        return await _explain_text(Translator(client, model).stream(subject, SamplingParams(explain=True)))
    if model.task == "generate":
        options = SamplingParams(explain=True, max_tokens=longest_explained(model))
        return await _explain_text(Generator(client, model).stream(subject, options))
    known = "a model that classifies, captions, translates or generates text"
    raise InputError(known, f"{name!r}: {model.task}", "name another")


async def _explain_text(stream: AsyncIterator[Delta]) -> Explanation:
    deltas = [delta async for delta in stream]
    alignment = join_alignments([delta.alignment for delta in deltas if delta.alignment is not None])
    token_ids = np.array([token for delta in deltas for token in delta.token_ids], dtype=np.int64)
    arrays = {ALIGNMENT: np.zeros((0, 0), np.float32) if alignment is None else alignment, OUTPUT_IDS: token_ids}
    return Explanation(answer="".join(delta.text for delta in deltas), arrays=arrays)
