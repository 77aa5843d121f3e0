"""The beams of one request after a run: each goes on from the row of its parent, and nothing is computed twice.

Legend: W beams, V vocabulary.
"""

from collections.abc import Sequence

from attendant.errors import AttendantError
from serving.engine.batch import Batch
from serving.engine.loaded_model import LoadedModel
from serving.engine.output_processor import OutputProcessor
from serving.engine.request import Request, create_sequence
from serving.runtime.base import Array


class BeamExecutor:
    """Moves the rows of beams as their searches say."""

    def __init__(self, model: LoadedModel, batch: Batch, output_processor: OutputProcessor) -> None:
        self._model, self._batch, self._output_processor = model, batch, output_processor

    def advance(self, request: Request, logits_WV: Sequence[Array] | Array) -> None:
        """Let a search rank what its rows return, and its beams go on.

        Args:
            request: of beams; one row until its prompt is done.
            logits_WV: of its rows, in the order of its sequences.
        """
        assert request.search is not None
        try:
            advance = request.search.advance(logits_WV)
        except AttendantError as error:
            self._output_processor.fail(request, error)
            return
        if advance is None:
            self._output_processor.finish_beams(request)
            return
        tokens = [list(request.sequences[parent].tokens) for parent in advance.parents]
        if len(request.sequences) == 1:
            others = [create_sequence(request, 0, [], self._model) for _ in tokens[1:]]
            self._batch.rows.fork(request.sequences[0], others)
            request.sequences += others
        else:
            rows = [sequence.row for sequence in request.sequences]
            parents = [rows[parent] for parent in advance.parents]
            self._batch.cache.permute(rows, parents, request.sequences[0].cached)
        for sequence, before, token in zip(request.sequences, tokens, advance.tokens, strict=True):
            sequence.tokens = [*before, int(token)]
