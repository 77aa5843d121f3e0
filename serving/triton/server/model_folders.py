"""The models to serve, which must lie in the repository before anything is started."""

from pathlib import Path

from attendant.errors import ArtefactError
from serving.triton.server.settings import ServerSettings


def find_models(settings: ServerSettings) -> tuple[str, ...]:
    """The names of those that are to be served: all that have a config.pbtxt, or those that were chosen.

    Raises:
        ArtefactError: the repository has no model, or lacks one that was requested.
    """
    present = {path.parent.name for path in settings.repository.glob("*/config.pbtxt")}
    missing = set(settings.models) - present
    if missing or not present:
        expected = f"models {sorted(missing)}" if missing else "one model at least"
        found = f"{sorted(present) or 'none'} in {Path(settings.repository)}"
        raise ArtefactError(expected, found, "lay it out with `attendant repository`")
    return tuple(sorted(settings.models or present))
