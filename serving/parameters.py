"""The parameters of ``config.pbtxt`` that a model's body reads back."""

from __future__ import annotations

THREADS = "threads"
