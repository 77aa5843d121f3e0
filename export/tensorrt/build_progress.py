"""TensorRT's account of a build as one bar: the steps of its outermost phase, named by the innermost one."""

import threading
from contextlib import ExitStack

from attendant.progress import Advance, progress


class BuildProgress:
    """What a builder calls, from any of its threads.

    Attributes:
        stopped: whether the user has interrupted the build.
    """

    def __init__(self, title: str) -> None:
        self.stopped = False
        self._title = title
        self._turn = threading.Lock()
        self._bars: dict[str, ExitStack] = {}
        self._advance: dict[str, Advance] = {}
        self._phase = title

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """A phase begins; one without a parent gets a bar."""
        with self._turn:
            self._phase = phase_name
            if not parent_phase and phase_name not in self._bars:
                bar = self._bars[phase_name] = ExitStack()
                self._advance[phase_name] = bar.enter_context(progress(f"{self._title}: {phase_name}", num_steps))

    def step_complete(self, phase_name: str, step: int) -> bool:
        """A step is done.

        Returns:
            Whether the build goes on.
        """
        try:
            with self._turn:
                if phase_name in self._advance:
                    self._advance[phase_name](self._phase)
        except KeyboardInterrupt:  # nothing may be raised into the builder: it is told, and ends early
            self.stopped = True
        return not self.stopped

    def phase_finish(self, phase_name: str) -> None:
        """A phase is over."""
        with self._turn:
            self._advance.pop(phase_name, None)
            bar = self._bars.pop(phase_name, None)
            if bar is not None:
                bar.close()
