"""The thread that steps an engine: as long as there is work, and asleep while there is none."""

from __future__ import annotations

import logging
import threading

from serving.engine.engine import Engine

_ASLEEP_S = 0.25


class EngineThread:
    """Steps an engine until it is stopped; requests come from other threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="decode")
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it steps on."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Answer everybody who waits, then end."""
        self._stopping.set()
        self._engine.wake()
        self._thread.join()

    def _work(self) -> None:
        while not (self._stopping.is_set() and self._engine.is_idle):
            try:
                if not self._engine.step():
                    self._engine.wait(_ASLEEP_S)
            except Exception:  # a mistake of ours: who is being served learns of it, and the others are served on
                logging.exception("a step of the engine failed")
                self._engine.fail_all()
