"""What a checkpoint says of its tokens, beyond their probabilities.

Legend: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.runtime.base import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Which tokens end an answer, begin it, or never come.

    Attributes:
        end: the tokens that end an answer.
        first: the token that follows a prompt of one token, as a translator's is, whatever the model says.
        never: tokens that are never chosen.
    """

    end: frozenset[int] = frozenset()
    first: int | None = None
    never: tuple[int, ...] = ()

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> TokenRules:
        """The rules among a manifest's details.

        They are ``end_token`` or ``end_tokens``, ``forced_start_token`` and ``suppressed_tokens``.
        """
        end = {int(token) for token in details.get("end_tokens", ())}
        if "end_token" in details:
            end.add(int(details["end_token"]))
        never = tuple(int(token) for token in details.get("suppressed_tokens", ()))
        return cls(end=frozenset(end), first=details.get("forced_start_token"), never=never)

    def sample(self, logits_V: Array, count: int) -> int:
        """The most probable token that the rules allow, after ``count`` others."""
        if count == 0 and self.first is not None:
            return self.first
        if self.never:
            logits_V = logits_V.copy()
            logits_V[list(self.never)] = -np.inf
        return int(logits_V.argmax())
