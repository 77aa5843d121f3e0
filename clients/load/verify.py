"""Whether an answer is the right one; what is wrong with it is said in one line.

Legend: B rows, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import InputError
from attendant.tensor_names import LOGITS, POOLED
from clients.load.in_flight import InFlightRequest, Outputs
from clients.load.request_inputs import decoding_of
from clients.load.scenario import Expect, Workload
from clients.load.transport import Prepared

Array = NDArray[Any]


class Judge:
    """Of the answers to one workload."""

    def __init__(self, prepared: Prepared) -> None:
        """Take what is expected.

        Raises:
            InputError: what is expected is not known, or cannot be compared with the model's answers.
        """
        self._expect, self._questions = prepared.workload.expect, prepared.questions
        self._labels = _labels(prepared)
        self._arrays = _arrays(self._expect, len(self._questions))
        self._tokens = [_promised(prepared.workload, question) for question in self._questions]
        self._first: dict[int, Any] = {}
        if self._expect.kind == "example" and any(question.answer is None for question in self._questions):
            raise InputError("a known answer of every question", "none", "choose another expect.kind")
        if self._expect.kind in ("text", "label") and len(self._expect.answers) not in (1, len(self._questions)):
            raise InputError(f"1 or {len(self._questions)} answers", str(len(self._expect.answers)), "correct expect")

    def fault(self, flight: InFlightRequest) -> str:
        """What is wrong with a whole answer; empty if nothing is."""
        question = flight.choice.question
        promised = self._tokens[question]
        if promised is not None and flight.count != promised:
            return f"expected {promised} tokens; found {flight.count} before the last response"
        match self._expect.kind:
            case "nothing":
                return ""
            case "same":
                return self._as_first(question, flight)
            case "arrays":
                return self._close({name: rows[question] for name, rows in self._arrays.items()}, _outputs(flight))
            case "example":
                return self._as_known(self._questions[question].answer, flight)
            case _:
                answers = self._expect.answers
                return self._as_known(answers[question % len(answers)], flight)

    def _as_known(self, answer: Any, flight: InFlightRequest) -> str:
        if flight.outputs is None:
            return _different(answer, flight.text)
        outputs = _outputs(flight)
        if isinstance(answer, str):
            return _different(answer, self._label(outputs))
        return self._close(answer if isinstance(answer, Mapping) else {POOLED: answer}, outputs)

    def _as_first(self, question: int, flight: InFlightRequest) -> str:
        answer = flight.text if flight.outputs is None else _outputs(flight)
        first = self._first.setdefault(question, answer)
        return _different(first, answer) if isinstance(answer, str) else self._close(first, answer)

    def _close(self, expected: Mapping[str, Any], outputs: Outputs) -> str:
        for name, values in expected.items():
            wanted, found = np.ravel(values), np.ravel(outputs[name]) if name in outputs else np.zeros(0)
            if wanted.dtype == np.object_:
                if wanted.tolist() != found.tolist():
                    return f"{name} differs"
            elif len(wanted) > len(found):
                return f"expected {len(wanted)} numbers in {name}; found {len(found)}"
            elif not (difference := _largest(wanted, found[: len(wanted)])) <= self._expect.tolerance:
                return f"{name} differs by {difference:.2g}"
        return ""

    def _label(self, outputs: Outputs) -> str:
        best = int(outputs[LOGITS][0].argmax())
        return str(self._labels[best]) if self._labels else str(best)


def _largest(wanted: Array, found: Array) -> float:
    return float(np.abs(wanted.astype(np.float64) - found).max()) if len(wanted) else 0.0


def _outputs(flight: InFlightRequest) -> Outputs:
    return flight.outputs() if flight.outputs is not None else {}


def _different(expected: Any, found: str) -> str:
    return "" if expected == found else f"expected {expected!r}; found {found!r}"


def _promised(workload: Workload, question: Any) -> int | None:
    if workload.expect.tokens is not None:
        return workload.expect.tokens
    decoding = decoding_of(workload, question)
    return decoding.max_tokens if decoding.ignore_eos else None


def _labels(prepared: Prepared) -> Sequence[str]:
    return (prepared.model.parameters.get("labels") if prepared.model else None) or ()


def _arrays(expect: Expect, questions: int) -> dict[str, Array]:
    if not expect.file:
        return {}
    try:
        arrays = dict(np.load(Path(expect.file)))
    except (OSError, ValueError) as error:
        raise InputError(f"arrays at {expect.file}", str(error), "correct expect.file") from error
    for name, rows in arrays.items():
        if len(rows) != questions:
            raise InputError(f"{questions} rows of {name}, one a question", str(len(rows)), "correct expect.file")
    return arrays
