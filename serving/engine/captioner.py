"""An image in, pieces of its caption out: one captioner.

Legend: C channels.
"""

from __future__ import annotations

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import PIXELS
from serving.engine.classifier import require_finite
from serving.engine.request import Request, checked_limit
from serving.engine.text_generation_model import TextGenerationModel
from serving.engine.translator import NO_ECHO
from serving.runtime.base import Array


class Captioner(TextGenerationModel):
    """One artefact of the task ``caption``, loaded."""

    def request(self, subject: Array, options: SamplingParams | None = None, /) -> Request:
        """Check an image, float32 ``[C, height, width]`` or uint8 ``[height, width, C]``, as the graph takes them.

        Raises:
            InputError: shape, sides or type are not the model's, a pixel is NaN or infinite, the limit is out of reach,
                or nothing shows what the model attends to.
        """
        options = options or SamplingParams()
        seed = self._checked(options)
        if options.echo:
            raise InputError(*NO_ECHO)
        signature = self.runners["encoder"].signature
        signature.check(signature.input(PIXELS), subject.dtype.name, (1, *subject.shape))
        require_finite(subject)
        longest = int(self.details["max_target_length"]) - 1
        return Request(
            prompt=(int(self.details["start_token"]),),
            source={PIXELS: subject[None]},
            max_tokens=checked_limit(options.max_tokens, longest, "the cache's capacity less the start token"),
            options=options,
            seed=seed,
            input_tokens=0,
        )
