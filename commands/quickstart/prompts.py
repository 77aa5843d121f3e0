"""How documentation begins: prompts for ``stdlib-lm``, which has no right answer to be held to."""

PROMPTS = [  # none ends with a space: the tokens that it learned begin with theirs
    "Open a file and",
    "Return True if",
    "Return a list of",
    "If the optional argument",
    "Raised when",
    "Convert a",
    "Read up to",
    "Create a new",
    "An iterator over",
    "Base class for",
]
TOKENS = 32
