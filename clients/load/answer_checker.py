"""Whether an answer is the right one; what is wrong with it is said in one line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import InputError
from attendant.tensor_files import read_npz_file
from attendant.tensor_names import LOGITS, POOLED
from clients.load.in_flight import InFlightRequest, Outputs
from clients.load.request_inputs import MOST_BYTES
from clients.load.request_tensors import sampling_params
from clients.load.scenario import Expect
from clients.load.transport import PreparedWorkload

Array = NDArray[Any]


class AnswerChecker:
    """Checks the answers to one workload."""

    def __init__(self, prepared: PreparedWorkload) -> None:
        """Read what is expected.

        Raises:
            InputError: what is expected is not known, or cannot be compared with the model's answers.
        """
        self._expect, self._inputs = prepared.workload.expect, prepared.inputs
        self._labels = (prepared.model.parameters.get("labels") if prepared.model else None) or ()
        self._arrays = _read_arrays(self._expect, len(self._inputs)) if self._expect.file else {}
        params = [sampling_params(prepared.workload, one) for one in self._inputs]
        fixed = self._expect.tokens
        self._token_counts = [fixed or (one.max_tokens if one.ignore_eos else None) for one in params]
        self._first: dict[int, Any] = {}
        if self._expect.kind == "example" and any(one.answer is None for one in self._inputs):
            raise InputError("a known answer to every request", "none", "choose another expect.kind")
        if self._expect.kind in ("text", "label") and len(self._expect.answers) not in (1, len(self._inputs)):
            raise InputError(f"1 or {len(self._inputs)} answers", str(len(self._expect.answers)), "correct expect")

    def check(self, request: InFlightRequest) -> str:
        """What is wrong with a whole answer; empty if nothing is."""
        number = request.plan.input
        count = self._token_counts[number]
        if count is not None and request.token_count != count:
            return f"expected {count} tokens; found {request.token_count} before the last response"
        match self._expect.kind:
            case "nothing":
                return ""
            case "same":
                answer = request.text if request.outputs is None else request.outputs()
                first = self._first.setdefault(number, answer)
                return _compare_texts(first, answer) if isinstance(answer, str) else self._compare_arrays(first, answer)
            case "arrays":
                outputs = request.outputs() if request.outputs is not None else {}
                return self._compare_arrays({name: rows[number] for name, rows in self._arrays.items()}, outputs)
            case "example":
                return self._compare(self._inputs[number].answer, request)
            case _:
                answers = self._expect.answers
                return self._compare(answers[number % len(answers)], request)

    def _compare(self, answer: Any, request: InFlightRequest) -> str:
        if request.outputs is None:
            return _compare_texts(answer, request.text)
        outputs = request.outputs()
        if isinstance(answer, str):
            best = int(outputs[LOGITS][0].argmax())
            return _compare_texts(answer, str(self._labels[best] if self._labels else best))
        return self._compare_arrays(answer if isinstance(answer, Mapping) else {POOLED: answer}, outputs)

    def _compare_arrays(self, expected: Mapping[str, Any], outputs: Outputs) -> str:
        for name, values in expected.items():
            right, found = np.ravel(values), np.ravel(outputs[name]) if name in outputs else np.zeros(0)
            if right.dtype == np.object_:
                if right.tolist() != found.tolist():
                    return f"{name} differs"
            elif len(right) > len(found):
                return f"expected {len(right)} numbers in {name}; found {len(found)}"
            elif len(right):
                difference = float(np.abs(right.astype(np.float64) - found[: len(right)]).max())
                if not difference <= self._expect.tolerance:
                    return f"{name} differs by {difference:.2g}"
        return ""


def _compare_texts(expected: Any, found: str) -> str:
    return "" if expected == found else f"expected {expected!r}; found {found!r}"


def _read_arrays(expect: Expect, count: int) -> dict[str, Array]:
    arrays = read_npz_file(Path(expect.file), MOST_BYTES)
    for name, rows in arrays.items():
        if rows.shape[:1] != (count,):
            raise InputError(f"{count} rows of {name}, one an input", str(list(rows.shape)), "correct expect.file")
    return arrays
