"""A runner whose graph others may have written: what fails in it is the graph's failure, and its time is bounded."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from attendant.signature import GraphSignature
from export.bounded.process import guarded
from serving.runtime.base import Array, Buffer, Runner


class GuardedRunner:
    """Another runner, whose every run is :func:`export.bounded.process.guarded`."""

    def __init__(self, runner: Runner, expected: str) -> None:
        """Guard what is loaded already.

        Args:
            runner: the other.
            expected: what a run of it is: ``OpenVINO to run a/model.onnx``.
        """
        self._runner, self._expected = runner, expected

    @property
    def signature(self) -> GraphSignature:
        return self._runner.signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> Buffer:
        """A buffer of the other."""
        return self._runner.allocate(name, sizes)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Run the graph once.

        Raises:
            ArtefactError: it fails as it runs.
        """
        with guarded(self._expected):
            return self._runner.run(feeds)


def load_guarded(load: Callable[[], Runner], runtime: str, graph: Path) -> GuardedRunner:
    """Load a graph, and guard it from the start.

    Args:
        load: what loads it.
        runtime: the library.
        graph: its file.

    Raises:
        ArtefactError: it cannot be loaded.
    """
    with guarded(f"{runtime} to load {graph}"):
        return GuardedRunner(load(), f"{runtime} to run {graph}")


def guard_runners(
    runners: Mapping[str, Runner], runtime: str, folder: Path, names: Iterable[str] | None = None
) -> dict[str, Runner]:
    """Guard runners of an artefact that are loaded.

    Args:
        runners: graph name → runner.
        runtime: what runs them.
        folder: the artefact.
        names: of those that are used; all if not given.
    """
    used = runners if names is None else names
    return {name: GuardedRunner(runners[name], f"{runtime} to run {folder / name}.onnx") for name in used}
