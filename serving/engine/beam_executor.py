"""The beams of one request after a run: each goes on from the row of its parent, and nothing is computed twice.

Legend: W beams, V vocabulary.
"""

from __future__ import annotations

from attendant.errors import AttendantError
from serving.engine.batch import Batch
from serving.engine.loaded_model import LoadedModel
from serving.engine.output_processor import OutputProcessor
from serving.engine.sequence import Group
from serving.engine.sequence_factory import sequence_of
from serving.runtime.base import Array


class BeamExecutor:
    """Moves the rows of beams as their searches say."""

    def __init__(self, model: LoadedModel, batch: Batch, output_processor: OutputProcessor) -> None:
        self._model, self._batch, self._output_processor = model, batch, output_processor

    def advance(self, group: Group, logits_WV: Array) -> None:
        """Let a search rank what its rows return, and its beams go on.

        Args:
            group: of beams; one row until its prompt is done.
            logits_WV: of its rows, in the order of its sequences.
        """
        assert group.search is not None
        try:
            advance = group.search.advance(logits_WV)
        except AttendantError as error:
            self._output_processor.fail(group, error)
            return
        if advance is None:
            self._output_processor.finish_beams(group)
            return
        tokens = [list(group.sequences[parent].tokens) for parent in advance.parents]
        if len(group.sequences) == 1:
            others = [sequence_of(group, 0, [], self._model) for _ in tokens[1:]]
            self._batch.rows.fork(group.sequences[0], others)
            group.sequences += others
        else:
            rows = [sequence.row for sequence in group.sequences]
            parents = [rows[parent] for parent in advance.parents]
            self._batch.cache.permute(rows, parents, group.sequences[0].cached)
        for sequence, before, token in zip(group.sequences, tokens, advance.tokens, strict=True):
            sequence.tokens = [*before, int(token)]
