"""A model of a repository as the rules see it: its folder and its configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import ArtefactError
from attendant.records import read_file
from serving.lint.backends import BACKENDS, Backend, backend_named_by
from serving.triton.repository.layout import CONFIG_NAME
from serving.triton.repository.pbtxt import config_from_pbtxt


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One folder of a repository.

    Attributes:
        folder: its place.
        config: its ``ModelConfig`` message; empty where the file is none.
        unread: why there is no configuration; empty where there is one.
    """

    folder: Path
    config: Any
    unread: str

    @property
    def versions(self) -> list[int]:
        """The versions that Triton sees, oldest first: folders of digits, without a leading zero."""
        names = [path.name for path in self.folder.iterdir() if path.is_dir()]
        return sorted(int(name) for name in names if name.isdecimal() and str(int(name)) == name)

    @property
    def served(self) -> list[int]:
        """The versions that the version policy chooses, whether they exist or not; by default the newest."""
        policy = self.config.version_policy
        if policy.HasField("specific"):
            return sorted(int(version) for version in policy.specific.versions)
        if policy.HasField("all"):
            return self.versions
        return self.versions[-max(1, policy.latest.num_versions) :]

    @property
    def backend(self) -> str:
        """The name of the backend, as Triton finds it out; empty where it cannot."""
        first = self.folder / str(self.versions[0]) if self.versions else None
        files = {path.name for path in first.iterdir()} if first else set()
        return backend_named_by(self.config, self.folder.name, files)

    @property
    def known_backend(self) -> Backend | None:
        """What is known of the backend; none of an ensemble or a backend of others."""
        return BACKENDS.get(self.backend)

    @property
    def states(self) -> list[Any]:
        return list(self.config.sequence_batching.state)


def read_models(repository: Path) -> list[Model]:
    """Every folder of a repository, by name; Triton takes each for a model.

    Raises:
        ArtefactError: the repository is missing or holds no folder.
    """
    folders = sorted(path for path in repository.iterdir() if path.is_dir()) if repository.is_dir() else []
    if not folders:
        found = "there is no folder in it" if repository.is_dir() else "there is no such folder"
        remedy = "name a folder that holds one for each model, or write one with `attendant repository`"
        message = f"no model repository at {repository}: {found}; {remedy}"
        raise ArtefactError(f"a model repository at {repository}", found, remedy, message=message)
    return [read_model(folder) for folder in folders]


def read_model(folder: Path) -> Model:
    """A folder as a model, whether its configuration can be read or not."""
    config, unread = pb.ModelConfig(), ""
    try:
        config = config_from_pbtxt(read_file(folder / CONFIG_NAME).decode())
    except FileNotFoundError:
        unread = "no file"
    except (OSError, UnicodeDecodeError) as error:
        unread = str(error)
    except ArtefactError as error:
        unread = error.found
    return Model(folder=folder, config=config, unread=unread)
