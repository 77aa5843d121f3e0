"""Whether a model's configuration and its artefact are of one layout: a repository may be exchanged between the two."""

from pathlib import Path

from attendant.errors import ArtefactError
from attendant.manifest import Manifest


def require_one_layout(model: Path, manifest: Manifest, configured: str) -> None:
    """Refuse an artefact that came after Triton had read the former one's labels, preprocessing and template.

    A configuration that was written for another artefact, and lies beside this one, is its writer's to mend: `attendant
    lint` tells what does not fit.

    Args:
        model: its folder in the repository.
        manifest: of the artefact that is being loaded.
        configured: the artefact's hash in the configuration that Triton has read; empty if it names none.

    Raises:
        ArtefactError: the configuration that lies there by now is this artefact's, and not the one that was read.
    """
    if configured not in ("", manifest.sha256) and manifest.sha256 in (model / "config.pbtxt").read_text("utf-8"):
        raise ArtefactError("one layout of a model", "another since its configuration was read", "load it again")
