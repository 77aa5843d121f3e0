"""One running tritonserver, from its start to the last trace of it."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from attendant.errors import AttendantError, ServerError
from clients.admin_key import AdminKey
from clients.triton_client import TritonClient
from serving.certificates import OwnTls
from serving.triton.server.command import command_line
from serving.triton.server.endpoints import Endpoints
from serving.triton.server.group import end_group, has_exited, wait_for_exit
from serving.triton.server.guard import returncode_from_status
from serving.triton.server.installation import Installation, find_installation
from serving.triton.server.launch import launch
from serving.triton.server.model_folders import awaited_models, find_models
from serving.triton.server.ports import all_listen, check_ports_free
from serving.triton.server.reaper import Reaper
from serving.triton.server.server_log import LogFollower, problems_in
from serving.triton.server.settings import ServerSettings
from serving.triton.server.shared_memory import narrow_regions, new_server_name, remove_dead_regions, remove_regions
from serving.triton.server.workers import server_of
from serving.triton.server.workspace import (
    lay_out,
    log_path,
    new_workspace,
    remove_dead_environments,
    remove_dead_workspaces,
    workspace_prefix,
)

LogChoice = Literal["file", "terminal"]
DRAIN_MARGIN_S = 3.0  # for unloading, after the requests have had their time
POLL_S = 0.1
CRASH_SIGNALS = (4, 6, 7, 8, 11)
CRASHED = re.compile(rb"^Signal \((4|6|7|8|11)\) received\.$", re.MULTILINE)
"""What tritonserver 2.51 prints before it looks where it was, which can hang (server's ``main.cc``)."""
LOADING = re.compile(r"TRITONBACKEND_ModelInstanceInitialize: (\S+)_\d+_\d+ \(")
"""What a backend prints of a model as it begins to load it; the server prints its own line of all of them at once."""
MOST_LOG_BYTES = 1 << 20
"""That are read of the log at once."""
PROBE_TIMEOUT_S = 2.0


class TritonServer:
    """A tritonserver that this process starts and ends, with its stubs, shared memory and temporary folder.

    It is started once, and ended by ``stop`` or on leaving a ``with`` block. Should this process die without
    either, the server's reaper ends it at once, and removes what is left. Not for several threads at once.

    Attributes:
        endpoints: where it answers.
        models: their names.
        due: those of them that are to be loaded at its start.
        name: what it calls itself, to whoever asks.
        regions: how the names of its shared memory begin; another draw, as a client could open what it can name.
        admin_key: what a client must know to change the server.
        own_client: how our own questions reach it, once it was started.
    """

    def __init__(
        self,
        settings: ServerSettings,
        installation: Installation | None = None,
        *,
        log: LogChoice = "file",
        drained_s: Callable[[], float] = lambda: 0.0,
        own_client: OwnTls | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            settings: of the server.
            installation: what is started; what is found if not given.
            log: where its log goes.
            drained_s: at the end, how much of the drain timeout is over already.
            own_client: that servers one after the other share with whoever asks them; one of its own if not given.
        """
        self._settings, self._log_choice, self._drained_s = settings, log, drained_s
        self._given_installation = installation
        self.due, self._loaded_first = list[str](), list[str]()
        self._workspace: Path | None = None
        self._copies: tuple[Path, ...] = ()
        self._guard: subprocess.Popen[bytes] | None = None
        self._reaper: Reaper | None = None
        self._ended = False
        self._failed = False
        self._crashed, self._read_bytes = False, 0
        self._following = contextlib.ExitStack()
        self.endpoints = settings.endpoints
        self.models: tuple[str, ...] = ()
        self.name, self.regions = new_server_name(os.getpid()), new_server_name(os.getpid())
        self.admin_key: AdminKey = settings.admin_key
        self.own_client = own_client or OwnTls(tls=settings.listen.is_on)

    @cached_property
    def _installation(self) -> Installation:
        return self._given_installation or find_installation()

    @property
    def repository(self) -> Path:
        """Whose models it serves."""
        return self._settings.repository

    @property
    def log(self) -> Path | None:
        """All that the server and its models print, kept after a failure; None before the start."""
        return None if self._workspace is None else log_path(self._workspace)

    @property
    def group(self) -> int | None:
        """The process group of the server and its stubs; None before the start."""
        return None if self._guard is None else self._guard.pid

    @property
    def returncode(self) -> int | None:
        """How the server ended, negative for a signal; None until ``poll``, ``wait`` or ``stop`` saw it."""
        status = None if self._guard is None else self._guard.returncode
        return None if status is None else returncode_from_status(status)

    def start(self, later: Collection[str] = (), before: Collection[str] = (), *, empty: bool = False) -> None:
        """Start the server and return at once.

        Args:
            later: models that are not due at its start.
            before: models that another served before: one that is gone is loaded once it is back, as are unfit ones.
            empty: whether it loads nothing itself, and others have it load what is due; else it is live only once it
                has loaded all that is due, or could not.

        Raises:
            MachineError: there is no tritonserver, or it lacks what it needs.
            ConfigError: a port is taken, or no client could accept the certificate.
            ArtefactError: the repository lacks the models.
            OutputError: the folder for temporary files cannot be written.
            ServerError: it was started before.
        """
        if self._guard is not None:
            raise ServerError("a TritonServer that was never started", "one that was", "make a new one")
        installation = self._installation
        present = find_models(self._settings, before)
        gone = sorted({*before, *awaited_models(self._settings)} - set(present))
        self.models = tuple(sorted({*present, *gone}))
        check_ports_free(self._settings)
        remove_dead_regions()
        remove_dead_workspaces()
        remove_dead_environments()
        self._reaper = Reaper(workspace_prefix(self.name), self.regions)
        try:
            self._workspace = new_workspace(self.name)
            lay_out(installation, self._settings.repository, self._workspace)
            # tritonserver reads them once it has loaded its models, when they may have been renewed.
            listen = self.own_client.keep(self._settings.listen, self._workspace)
        except (AttendantError, OSError):
            self.remove_log()
            raise
        self._copies = listen.files
        self.due = [name for name in self.models if name not in {*later, *gone}]
        self._loaded_first = [] if empty else self.due
        settings = replace(self._settings, listen=listen)
        command = command_line(settings, installation, self._workspace, self.name, self.regions, self._loaded_first)
        self._guard = launch(command, self.admin_key.secret, installation, self._workspace)
        self._reaper.watch(self._guard.pid)
        if self._log_choice == "terminal":
            self._following.enter_context(LogFollower(log_path(self._workspace)))

    async def wait_until_live(self, timeout_s: float) -> None:
        """Return when the server is live at each port: each model that it loads itself is loaded, or has failed.

        It must be ours: Triton takes its ports after loading its models, and another server may have been faster.

        Raises:
            ServerError: the server ended, or the time is over.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            narrow_regions(self.regions)
            # A new client each time: one that met nobody tries again after a second.
            async with TritonClient(self.endpoints.grpc, timeout_s=PROBE_TIMEOUT_S, tls=self.own_client) as client:
                with contextlib.suppress(ServerError):
                    if await client.server_name() == self.name and all_listen(self.endpoints):
                        narrow_regions(self.regions)
                        self._failed = False  # it was late
                        return
            self._raise_if_ended()
            if time.monotonic() > deadline:
                raise self.failure(f"a tritonserver ready within {timeout_s:g} s", "it is not")
            await asyncio.sleep(POLL_S)

    def restore_workspace(self) -> None:
        """Lay out what somebody removed of its temporary folder: a model that is loaded needs what is in it.

        The shared memory of models that were loaded meanwhile becomes this user's alone.
        """
        with contextlib.suppress(OSError):  # a disk that is full, say, or no descriptor: the next look tries again
            narrow_regions(self.regions)
            if self._workspace is not None:
                lay_out(self._installation, self._settings.repository, self._workspace)

    def has_crashed(self) -> bool:
        """Whether the server is in the handler of a crash, in which it may hang.

        Its log is shared with whatever a model prints: a line alone is no proof.
        """
        if self.log is not None and not self._crashed:
            with contextlib.suppress(OSError), self.log.open("rb") as log:
                log.seek(self._read_bytes)
                part = log.read(MOST_LOG_BYTES)
                whole = part.rfind(b"\n") + 1
                self._crashed = CRASHED.search(part[:whole]) is not None
                self._read_bytes += whole or (len(part) if len(part) == MOST_LOG_BYTES else 0)
        process = server_of(self.group or 0) if self._crashed else None
        return process is not None and process.blocks(*CRASH_SIGNALS)

    def models_at_the_crash(self) -> list[str]:
        """The models due at the start that this server was loading as it crashed, or was killed."""
        if -(self.returncode or 0) not in (*CRASH_SIGNALS, signal.SIGKILL):  # of the kernel, for memory
            return []
        text = self._read_log()
        begun = {found[1]: found.end() for found in LOADING.finditer(text)}
        told = ("successfully loaded '{}'", "failed to load '{}'")
        return [
            name
            for name in self.due
            if name in begun and not any(text.find(one.format(name), begun[name]) >= 0 for one in told)
        ]

    def wait_until_ready(self, check: Callable[[Endpoints], None], timeout_s: float) -> None:
        """Return when the server has loaded every model and the check agrees; not within an event loop.

        Args:
            check: asks each model for a real answer, and raises an AttendantError unless it is a good one:
                the server's own word is not enough, as it does not know of a dead stub.
            timeout_s: the longest time until the server says that it is ready.

        Raises:
            ServerError: the server ended, or the time is over.
            AttendantError: what the check raised.
        """
        asyncio.run(self.wait_until_live(timeout_s))
        if failed := asyncio.run(self._failed_models()):
            error = self.failure("every model loaded", f"failed {', '.join(failed)}")
            self.kill()
            raise error
        self._run(check)

    def poll(self) -> int | None:
        """Say how the server ended, or None while it runs; what an ended one left behind is removed."""
        if self._guard is not None and not self._ended and has_exited(self._guard):
            self._failed = True
            self._end(self._guard)
        return self.returncode

    def wait(self) -> int:
        """Return when the server has ended by itself, with its returncode."""
        while (returncode := self.poll()) is None:
            time.sleep(POLL_S)
        return returncode

    def stop(self) -> None:
        """End the server, killing it when its requests outlast the drain timeout. Again is no harm.

        Raises:
            ServerError: a process of it cannot be killed.
        """
        try:
            if self._guard is not None and not self._ended:
                try:
                    os.kill(self._guard.pid, signal.SIGTERM)  # never recycled: only _end reaps it
                    left_s = max(0.0, self._settings.drain_timeout_s - self._drained_s())
                    wait_for_exit(self._guard, left_s + DRAIN_MARGIN_S)
                finally:  # an impatient second Ctrl-C ends it at once
                    self._end(self._guard)
        finally:
            if not self._failed:
                self.remove_log()

    def remove_log(self) -> bool:
        """Remove what was kept of a server that failed; False where that cannot be done now."""
        if self._workspace is not None:
            with contextlib.suppress(RecursionError):  # which ignore_errors does not mean
                shutil.rmtree(self._workspace, ignore_errors=True)
        if self._reaper is not None:
            self._reaper.dismiss()
        try:
            return self._workspace is None or not self._workspace.exists()
        except OSError:  # nobody may look just now
            return False

    def kill(self) -> None:
        """End the server at once, with whatever it does."""
        if self._guard is not None:
            self._failed = True
            self._end(self._guard)

    def failure(self, expected: str, found: str) -> ServerError:
        """The error of a server that failed, with what its log says; the log is kept."""
        self._failed = True
        problems = "; ".join(problems_in(self._read_log()))
        return ServerError(expected, f"{found}: {problems}", f"the full log is {self.log}")

    def _read_log(self) -> str:
        with contextlib.suppress(OSError):  # somebody removed it
            return self.log.read_text(errors="replace") if self.log else ""
        return ""

    async def _failed_models(self) -> list[str]:
        async with TritonClient(self.endpoints.grpc, tls=self.own_client, admin_key=self.admin_key) as client:
            return sorted(set(await client.failed_models()) & set(self._loaded_first))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self, guard: subprocess.Popen[bytes]) -> None:
        if self._ended:  # by a signal handler that called stop meanwhile
            return
        self._ended = True
        try:
            end_group(guard)
            if self._reaper is not None:
                self._reaper.group_has_ended()
        finally:
            remove_regions(self.regions)
            for copy in self._copies:  # the log may stay
                with contextlib.suppress(OSError):
                    copy.unlink()
            self._following.close()

    def _run(self, check: Callable[[Endpoints], None]) -> None:
        try:
            check(self.endpoints)
        except AttendantError:
            self._failed = True
            self._raise_if_ended()
            raise

    def _raise_if_ended(self) -> None:
        returncode = self.poll()
        if returncode is not None:
            raise self.failure("a running tritonserver", f"it ended with {returncode}")
