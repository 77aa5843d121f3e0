"""What the graphs of one side answer: values step by step, greedy texts, and how many answers are right.

A decoder is fed the right tokens (teacher forcing), first its prompt at once and then single steps, as it is served;
where another graph reads prompts, the decoder goes on from what that has cached. The reference, whose steps and whole
are proved equal by the parity check, takes all of them at once.

Legend: N questions, B rows, T target positions, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from attendant.tensor_names import LOGITS, PREFILL
from export.quality.agreement import log_softmax
from export.quality.questions import EvaluationSet
from serving.runtime.base import Array, Buffer, Runner
from serving.runtime.cached_decoder import CachedDecoder

Graphs = Mapping[str, Runner]
WINDOWS_AT_ONCE = 8  # of a language model: their logits fill a hundred megabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How many answers are right.

    Attributes:
        right: of them.
        total: how many were asked.
        nats: −Σ log p of the right tokens; of language models.
    """

    right: int
    total: int
    nats: float | None = None

    @property
    def share(self) -> float:
        return self.right / self.total

    @property
    def perplexity(self) -> float | None:
        """The exponential of the nats a token."""
        return None if self.nats is None else float(np.exp(self.nats / self.total))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOutputs:
    """Of one side to the same questions.

    Attributes:
        values: output → float64 ``[B, T, V]``.
        greedy: tokens ``[N, T]`` behind the prompts; none where there is no decoder.
        accuracy: none where nobody knows the right answers.
    """

    values: Mapping[str, Array] = field(default_factory=dict)
    greedy: Array | None = None
    accuracy: Accuracy | None = None


def answers_of(graphs: Graphs, questions: EvaluationSet, at_once: bool = False) -> EvaluationOutputs:
    """Ask.

    Args:
        graphs: graph name → runner; they take each other's outputs.
        questions: of the artefact's task.
        at_once: whether a decoder is fed a whole target in one step, where it can.
    """
    if "decoder" in graphs:
        return _decode(graphs, questions, at_once)
    return _run_model(graphs["model"], questions)


def _run_model(model: Runner, questions: EvaluationSet) -> EvaluationOutputs:
    parts = [_outputs(model, batch) for batch in questions.batches()]
    values = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if questions.truth is None:
        return EvaluationOutputs(values=values)
    right = values[LOGITS][:, 0].argmax(-1) == questions.truth
    return EvaluationOutputs(values=values, accuracy=Accuracy(right=int(right.sum()), total=questions.count))


def _outputs(model: Runner, batch: EvaluationSet) -> dict[str, Array]:
    found = {name: buffer.numpy() for name, buffer in model.run(dict(batch.feeds)).items()}
    shown = {
        name: array[batch.feeds[batch.masks[name]]] if name in batch.masks else array for name, array in found.items()
    }
    floats = {name: array for name, array in shown.items() if array.dtype.kind == "f"}
    return {name: array.reshape(len(array), 1, -1).astype(np.float64) for name, array in floats.items()}


def _decode(graphs: Graphs, questions: EvaluationSet, at_once: bool) -> EvaluationOutputs:
    sample = questions.first(questions.sample)
    values = [force_decode(graphs, batch, at_once) for batch in sample.batches()]
    continues = "encoder" not in graphs
    asked = sample if continues else questions
    greedy = np.concatenate([greedy_tokens(graphs, batch) for batch in asked.batches()])
    accuracy = None
    if questions.metric:
        accuracy = _count_next_tokens(graphs, questions) if continues else _count_exact(greedy, questions)
    return EvaluationOutputs(values={LOGITS: np.concatenate(values)}, greedy=greedy, accuracy=accuracy)


def force_decode(graphs: Graphs, batch: EvaluationSet, at_once: bool) -> Array:
    """Logits ``[B, T, V]`` behind the right tokens, all but the last of which are fed."""
    tokens_BT, decoder = _targets(batch)[:, :-1], _decoder(graphs, batch)
    first = tokens_BT.shape[1] if at_once else batch.prompt
    sizes = [first, *[1] * (tokens_BT.shape[1] - first)]
    if graphs["decoder"].signature.input("token_ids").axes[1] == 1:  # recurrent: one token a step
        sizes = [1] * tokens_BT.shape[1]
    parts, begin = [], 0
    for size in sizes:
        new_BT = np.ascontiguousarray(tokens_BT[:, begin : begin + size])
        parts.append(decoder.step(new_BT, np.full(batch.count, begin))[LOGITS].astype(np.float64))
        if PREFILL in graphs and begin == 0 and not at_once:
            _read_prompt(graphs, decoder, new_BT[:, :-1])
        begin += size
    return np.concatenate(parts, axis=1)


def greedy_tokens(graphs: Graphs, batch: EvaluationSet) -> Array:
    """The most probable next token behind the prompt, again and again: int64 ``[B, T]``, as many as targets have."""
    targets_BT, decoder = _targets(batch), _decoder(graphs, batch)
    new_BT, begin, answer = np.ascontiguousarray(targets_BT[:, : batch.prompt]), 0, []
    if PREFILL in graphs and batch.prompt > 1:
        _read_prompt(graphs, decoder, new_BT[:, :-1])
        new_BT, begin = new_BT[:, -1:], batch.prompt - 1
    for _ in range(batch.prompt, targets_BT.shape[1]):
        last = np.full((batch.count, 1), new_BT.shape[1] - 1)
        logits_BLV = decoder.step(new_BT, np.full(batch.count, begin), last)[LOGITS]
        begin += new_BT.shape[1]
        new_BT = logits_BLV[:, -1:].argmax(-1)
        answer.append(new_BT)
    return np.concatenate(answer, axis=1)


def _read_prompt(graphs: Graphs, decoder: CachedDecoder, tokens_BT: Array) -> None:
    if tokens_BT.size:
        start_B = np.zeros(len(tokens_BT), dtype=np.int64)
        CachedDecoder.over(graphs[PREFILL], decoder.caches, {}).step(np.ascontiguousarray(tokens_BT), start_B)


def _count_next_tokens(graphs: Graphs, questions: EvaluationSet) -> Accuracy:
    right, total, nats = 0, 0, 0.0
    for batch in questions.batches(WINDOWS_AT_ONCE):
        log_p = log_softmax(force_decode(graphs, batch, at_once=True)[:, batch.prompt - 1 :])
        truth = _targets(batch)[:, batch.prompt :]
        right += int((log_p.argmax(-1) == truth).sum())
        nats -= float(np.take_along_axis(log_p, truth[..., None], axis=-1).sum())
        total += truth.size
    return Accuracy(right=right, total=total, nats=nats)


def _count_exact(greedy: Array, questions: EvaluationSet) -> Accuracy:
    right = (greedy == _targets(questions)[:, questions.prompt :]).all(1)
    return Accuracy(right=int(right.sum()), total=questions.count)


def _decoder(graphs: Graphs, batch: EvaluationSet) -> CachedDecoder:
    memories: dict[str, Array | Buffer] = {}
    if "encoder" in graphs:
        memories = {**batch.feeds, **graphs["encoder"].run(dict(batch.feeds))}
    return CachedDecoder(graphs["decoder"], batch.count, memories)


def _targets(questions: EvaluationSet) -> Array:
    assert questions.truth is not None  # every decoder's questions have targets
    return questions.truth
