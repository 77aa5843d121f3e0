"""Text in, pieces of another text out: one translator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.engine.request import Request, checked_limit
from serving.engine.text_generation_model import TextGenerationModel

NO_ECHO = ("an answer without its question: the decoder has read no prompt", "echo", "leave it out")


class Translator(TextGenerationModel):
    """One artefact of the task ``translate``, loaded."""

    def request(self, subject: str | Sequence[int], options: SamplingParams | None = None, /) -> Request:
        """Check a source, a text or its tokens; the limit is 1 … capacity − 1.

        Raises:
            InputError: it cannot be translated or explained, or a limit is out of reach.
        """
        options = options or SamplingParams()
        seed = self._checked(options)
        if options.echo:
            raise InputError(*NO_ECHO)
        source_BS = np.array([self.tokens(subject, int(self.details["max_source_length"]))], dtype=np.int64)
        longest = int(self.details["max_target_length"]) - 1
        return Request(
            prompt=(int(self.details["start_token"]),),
            source={"source_ids": source_BS, "source_mask": np.ones_like(source_BS, dtype=bool)},
            max_tokens=checked_limit(options.max_tokens, longest, "the cache's capacity less the start token"),
            options=options,
            seed=seed,
            input_tokens=source_BS.size,
        )
