"""Every rule, in the order in which reports give them."""

from __future__ import annotations

from serving.lint.answers import ANSWER_RULES
from serving.lint.batching import BATCHING_RULES
from serving.lint.command import COMMAND_RULES
from serving.lint.configuration import FILE_OF_ITS_OWN, TEXT_RULES
from serving.lint.ensembles import ENSEMBLE_RULES
from serving.lint.files import FILE_RULES
from serving.lint.instances import INSTANCE_RULES
from serving.lint.sequences import SEQUENCE_RULES
from serving.lint.states import STATE_RULES
from serving.lint.warm_up import WARM_UP_RULES

__all__ = ["COMMAND_RULES", "FILE_OF_ITS_OWN", "MODEL_RULES"]

MODEL_RULES = (
    *TEXT_RULES,
    *FILE_RULES,
    *BATCHING_RULES,
    *SEQUENCE_RULES,
    *STATE_RULES,
    *ANSWER_RULES,
    *WARM_UP_RULES,
    *INSTANCE_RULES,
    *ENSEMBLE_RULES,
)
