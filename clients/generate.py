"""Continue prompts with a language model on a Triton server, token by token."""

from collections.abc import AsyncIterator

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors
from attendant.tensor_names import RENDERED
from clients.answer import Delta
from clients.text import TextModel


class Generator(TextModel):
    """A served model of the task ``generate``."""

    task = "generate"

    def chat(self, prompt: str, options: SamplingParams | None = None) -> AsyncIterator[Delta]:
        """The answers to a prompt that the model's chat template has made, whose special tokens are meant as such."""
        return self.stream_deltas(prompt_tensors(prompt), options, {RENDERED: True})

    async def generate(self, prompt: str, options: SamplingParams | None = None) -> str:
        """The whole continuation; see :meth:`clients.text.TextModel.stream`."""
        return await self.answer(prompt, options)
