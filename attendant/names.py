"""Names that come from outside and become folders, files or parameters: of models, graphs, files and details."""

import re

from attendant.errors import ArtefactError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_DETAIL = re.compile(r"[a-z][a-z0-9_]{0,199}")


def is_plain_name(name: str) -> bool:
    """Whether a name can be a folder or a file on any system, and never leads out of the place that it is put."""
    return _PLAIN.fullmatch(name) is not None


def is_detail_name(name: object) -> bool:
    """Whether a detail of a model may have a name: what it becomes in ``config.pbtxt`` is no parameter of Triton's.

    Those are in upper case, and name files that the server runs (``EXECUTION_ENV_PATH`` of python_backend,
    ``TRITON_BATCH_STRATEGY_PATH`` of the core).
    """
    return isinstance(name, str) and _DETAIL.fullmatch(name) is not None


def require_plain_name(name: str) -> None:
    """Reject a name unless it is plain.

    Raises:
        ArtefactError: it is not.
    """
    if not is_plain_name(name):
        expected = "a name of at most 200 letters, digits, '.', '_' and '-' that begins with a letter or a digit"
        raise ArtefactError(expected, repr(name)[:100], "choose another name")
