"""Imported first by the process that exports are forked from: it ends where its parent has ended meanwhile.

Its other imports take seconds, and until they are done it does not look at the pipe that would tell it.
"""

import os
import signal
import sys

_EACH_S = 0.2
_PARENT = os.getppid()
_FAILED = 1


def _end_with_parent(*_: object) -> None:
    if os.getppid() != _PARENT:
        os._exit(_FAILED)


if sys.argv[:1] == ["-c"]:  # as multiprocessing starts that process, and nothing else imports this
    signal.signal(signal.SIGALRM, _end_with_parent)
    signal.setitimer(signal.ITIMER_REAL, _EACH_S, _EACH_S)  # which what is forked does not inherit
