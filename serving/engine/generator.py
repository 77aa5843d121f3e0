"""A prompt in, pieces of its continuation out: one language model."""

from __future__ import annotations

from collections.abc import Sequence

from attendant.sampling_params import SamplingParams
from serving.engine.request import Request, checked_limit
from serving.engine.text_generation_model import TextGenerationModel


class Generator(TextGenerationModel):
    """One artefact of the task ``generate``, loaded."""

    def request(self, subject: str | Sequence[int], options: SamplingParams | None = None, /) -> Request:
        """Check a prompt, a text or its tokens; prompt and answer fit the cache together.

        Raises:
            InputError: it cannot be continued, or a limit is out of reach.
        """
        options = options or SamplingParams()
        seed, longest = self._checked(options), int(self.details["max_length"])
        prompt = self.tokens(subject, longest - 1, self.vocabulary_size)
        why = f"the cache's {longest} positions less the prompt's {len(prompt)}"
        return Request(
            prompt=prompt,
            max_tokens=checked_limit(options.max_tokens, longest - len(prompt), why),
            options=options,
            seed=seed,
            text=self._echoed(subject) if options.echo else "",
            input_tokens=len(prompt),
        )

    def _echoed(self, subject: str | Sequence[int]) -> str:
        return subject if isinstance(subject, str) else self.tokenizer.decode(subject)
