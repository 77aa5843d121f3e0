"""Whether the models to serve lie in the repository, asked before anything is started."""

from pathlib import Path

from attendant.errors import ArtefactError
from serving.triton.server.settings import ServerSettings


def check_models_exist(settings: ServerSettings) -> None:
    """Look for each model's config.pbtxt.

    Raises:
        ArtefactError: the repository has no model, or lacks one that was requested.
    """
    present = {path.parent.name for path in settings.repository.glob("*/config.pbtxt")}
    missing = set(settings.models) - present
    if missing or not present:
        expected = f"models {sorted(missing)}" if missing else "one model at least"
        found = f"{sorted(present) or 'none'} in {Path(settings.repository)}"
        raise ArtefactError(expected, found, "lay it out with `attendant repository`")
