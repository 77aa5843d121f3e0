"""How documentation begins: prompts for ``stdlib-lm``, which has no right answer to be held to."""

from __future__ import annotations

PROMPTS = [
    "Return a ",
    "Return True if ",
    "Raise ValueError if ",
    "This module provides ",
    "Open the file ",
    "Convert a string ",
    "Create a new ",
    "The optional argument ",
    "An iterator over ",
    "Base class for ",
]
TOKENS = 32
