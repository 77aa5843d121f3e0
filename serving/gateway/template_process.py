"""The process in which a model's chat template is rendered: a program of others, which the kernel bounds.

Jinja2's sandbox keeps a template from the machine; it bounds neither its time nor its memory.
Source of the environment: Hugging Face transformers, ``chat_template_utils.py``: its functions and variables.
"""

import json
import os
import resource
import signal
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from serving.processes import connection_of

MOST_S = 1.0
"""Of a processor, to compile and render a template."""
MOST_BYTES = 128 << 20
"""That rendering may take."""
LONGEST_S = 10.0
"""By the clock, of a machine that is busy."""
MOST_MESSAGE = 1000
"""Characters of what a template says of its failure."""


def serve_templates(descriptor: int) -> None:
    """Render what comes, until the other end is closed, or something takes too much: that ends this process."""
    connection = connection_of(descriptor)
    _bound_memory()
    with suppress(EOFError, OSError):
        while True:
            request = connection.recv_bytes()
            signal.setitimer(signal.ITIMER_PROF, MOST_S)  # whose signals end this process
            signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
            answer = _render(**json.loads(request))
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send_bytes(json.dumps(answer).encode())


def _render(template: str, variables: dict[str, Any], most_bytes: int) -> dict[str, str]:
    try:
        prompt = _compile_template(template).render(**variables)
        size = len(prompt.encode())
    except MemoryError:
        os._exit(1)
    except Exception as error:  # whatever a template of others may raise
        return {"error": (str(error) or type(error).__name__)[:MOST_MESSAGE]}
    return {"prompt": prompt} if size <= most_bytes else {"error": f"a prompt of {size} bytes, more than {most_bytes}"}


@lru_cache(maxsize=4)
def _compile_template(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = time.strftime
    return environment.from_string(template)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _bound_memory() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what fails here says so at length
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_BYTES, taken + MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
