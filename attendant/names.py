"""Names that come from outside and become folders or files: of models, of graphs, of what lies in an artefact."""

import re

from attendant.errors import ArtefactError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_plain_name(name: str) -> bool:
    """Whether a name can be a folder or a file on any system, and never leads out of the place that it is put."""
    return _PLAIN.fullmatch(name) is not None


def require_plain_name(name: str) -> None:
    """Reject a name unless it is plain.

    Raises:
        ArtefactError: it is not.
    """
    if not is_plain_name(name):
        expected = "a name of at most 200 letters, digits, '.', '_' and '-' that begins with a letter or a digit"
        raise ArtefactError(expected, repr(name)[:100], "choose another name")
