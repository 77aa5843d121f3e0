"""The other libraries, where they are installed: for comparing, and for tokenizers that only one can convert."""

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_OLDEST = 5


def transformers() -> Any | None:
    """The package transformers, or nothing where it is missing or older than 5."""
    if importlib.util.find_spec("transformers") is None:
        return None
    library: Any = importlib.import_module("transformers")
    return library if int(library.__version__.split(".")[0]) >= _OLDEST else None


def timm() -> Any | None:
    """The package timm, or nothing where it is missing or has no torchvision that can be imported."""
    try:
        return importlib.import_module("timm")
    except (ImportError, RuntimeError):  # torchvision beside another build of torch
        return None


LIBRARIES: dict[str, Callable[[], Any | None]] = {"transformers": transformers, "timm": timm}


@contextmanager
def quietly() -> Iterator[None]:
    """Keep what transformers tells its own users, about its own options, from ours."""
    if transformers() is None:
        yield
        return
    logging: Any = importlib.import_module("transformers.utils.logging")
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
