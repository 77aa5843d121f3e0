"""Requests that Triton has given up behind its stub's back.

tritonserver gives a batch up where its stub has not said for a second that it lives, as the thread that does so every
0.3 s had no processor. The stub still has it, and does not hear of it: from then on both read each other's messages
out of step, and end in a segmentation fault, the server with all its models. The one trace is in the queue of messages
to the stub: while a batch is being answered it is empty, and what follows an answer lies there once it was given up.
So such a stub ends at once, and the model alone is loaded anew; and it says that it lives as it begins a batch, and
ends one.

Source: ``ModelInstanceState::ProcessRequests`` (python_be.cc) of triton-inference-server/python_backend, r24.10.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from serving.triton.stub_messages import find_messages

EXIT_STATUS = 75
SETTLING_S = 0.1
"""Which what another thread has begun to say may take."""
Execute = Callable[[Any, list[Any]], Any]


def ends_if_given_up(execute: Execute) -> Execute:
    """End the process where Triton has given up what it is to execute, before and behind that."""

    @wraps(execute)
    def guarded(body: Any, requests: list[Any]) -> Any:
        _end_if_given_up()
        responses = execute(body, requests)
        _end_if_given_up()
        return responses

    return guarded


def stay_if_it_ends() -> None:
    """Hold another thread that would speak to Triton where this process is about to end.

    Who ends while it holds a lock in the shared memory ends the server as well.
    """
    while _ENDING.is_set():
        time.sleep(1.0)


def _end_if_given_up() -> None:
    if _MESSAGES is None:
        return
    _MESSAGES.say_alive()
    if not _MESSAGES.is_empty:
        _ENDING.set()
        sys.stderr.write("Triton has given up a request that this process still has, as it stood still: it ends\n")
        sys.stderr.flush()
        time.sleep(SETTLING_S)
        os._exit(EXIT_STATUS)


_ENDING = threading.Event()
_MESSAGES = find_messages(Path("/proc/self/cmdline").read_text(errors="replace").split("\0"))  # as it is loaded
