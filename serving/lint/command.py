"""Rules on the command line of a tritonserver."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attendant.errors import UserError
from serving.lint.rule import Finding, rule
from serving.lint.sources import DEPLOYMENT, MEASURED

_PROGRAM = "tritonserver"
_LISTENERS = {"http": "http-restricted-api", "grpc": "grpc-restricted-protocol"}
_CHANGING = ("shared-memory", "model-repository", "trace", "logging")
_IMAGE = re.compile(r"\btritonserver:(\d\d\.\d\d)\b")
_EVERY_INTERFACE = "0.0.0.0"  # noqa: S104  Triton's default # nosec B104
_LOOPBACK = ("127.", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a server is started with.

    Attributes:
        flags: name without dashes → its values, in order; ``true`` where none is given.
        version: of the server, or of its container; empty where nothing says.
    """

    flags: Mapping[str, tuple[str, ...]]
    version: str = ""

    def last(self, flag: str, default: str = "") -> str:
        return self.flags.get(flag, (default,))[-1]

    def is_on(self, listener: str) -> bool:
        """Whether ``http``, ``grpc`` or ``metrics`` listens at all."""
        return self.last(f"allow-{listener}", "true").lower() not in ("false", "0")

    def has_key(self, listener: str, protocol: str) -> bool:
        """Whether a group of calls, for instance ``model-repository``, is kept for those with a key."""
        values = self.flags.get(_LISTENERS[listener], ())
        return any(protocol in value.partition(":")[0].split(",") for value in values)

    def exposed(self, listener: str) -> str:
        """The address beyond this machine where ``http``, ``grpc`` or ``metrics`` listens; empty where none is."""
        if not self.is_on(listener):
            return ""
        default = self.last("http-address", _EVERY_INTERFACE) if listener == "metrics" else _EVERY_INTERFACE
        address = self.last(f"{listener}-address", default)
        return "" if address.startswith(_LOOPBACK) else address

    def open_to_all(self, protocol: str) -> list[str]:
        """The exposed listeners that answer a group of calls without a key."""
        return [one for one in _LISTENERS if self.exposed(one) and not self.has_key(one, protocol)]


def parse_command(text: str) -> Command:
    """Read a command line as a shell would, comments and continued lines too, from behind the program's name on.

    The version is that of the container's image, if one is named.

    Raises:
        UserError: there is none, or a quotation does not end.
    """
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise UserError("a command line", f"{text!r}: {error}", "close the quotation") from error
    if not words:
        raise UserError("a command line", "nothing", "give the words behind tritonserver")
    starts = [index + 1 for index, word in enumerate(words) if word.rpartition("/")[2] == _PROGRAM]
    image = _IMAGE.search(text)
    command = parse_flags(words[starts[-1] if starts else 0 :])
    return replace(command, version=image[1] if image else "")


def parse_flags(words: Sequence[str]) -> Command:
    """The flags among words, as ``--flag=value`` or as two words."""
    flags: dict[str, tuple[str, ...]] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            given = value if equals else "true" if following.startswith("--") or not following else following
            flags[name] = (*flags.get(name, ()), given)
    return Command(flags=flags)


@rule(
    severity="warning",
    statement="the server listens on this machine alone, or behind something that asks for a password",
    consequence="Triton has no users: any client that reaches a port may use every model and read every metric",
    source=f"{DEPLOYMENT}; http_address_ and grpc_options_ default to 0.0.0.0",
    remedy="set --http-address, --grpc-address and --metrics-address to 127.0.0.1; a container publishes its ports "
    "on 127.0.0.1",
)
def address(command: Command) -> Iterator[Finding]:
    for listener in (*_LISTENERS, "metrics"):
        address = command.exposed(listener)
        if address:
            given = "" if f"{listener}-address" in command.flags else ", the default"
            yield Finding(where=f"--{listener}-address", found=f"{address}{given}")


@rule(
    severity="error",
    statement="no client can load a model over the network: model control is none, or its calls need a key",
    consequence="to load a model is to run code on the server",
    source=DEPLOYMENT,
    remedy="--model-control-mode=none, or --grpc-restricted-protocol=model-repository:KEY=SECRET and the same by "
    "--http-restricted-api",
)
def model_control(command: Command) -> Iterator[Finding]:
    mode = command.last("model-control-mode", "none")
    for listener in command.open_to_all("model-repository") if mode == "explicit" else []:
        yield Finding(where="--model-control-mode", found=f"{mode}, open to all by {listener}")


@rule(
    severity="warning",
    statement="the repository is not polled",
    consequence="a model that is being written is loaded as far as it is written; who can write there can run code",
    source="server, docs/user_guide/model_management.md",
    remedy="--model-control-mode=none, and a restart or a second server for new models",
)
def model_polling(command: Command) -> Iterator[Finding]:
    if command.last("model-control-mode") == "poll":
        yield Finding(where="--model-control-mode", found="poll")


@rule(
    severity="warning",
    statement="clients on other machines cannot register shared memory",
    consequence="any client that reaches the port may let the server read and write any shared memory of its "
    "machine; servers before 2026-04 allow it always, and 2.51 does not start with this flag; later ones need it for "
    "clients on their own machine",
    source=f"triton-inference-server/server #8721; {DEPLOYMENT}",
    remedy="listen on 127.0.0.1, or restrict shared-memory by a key",
)
def client_shm(command: Command) -> Iterator[Finding]:
    allowed = command.last("allow-client-shm", "false").lower() in ("true", "1")
    for listener in command.open_to_all("shared-memory") if allowed else []:
        yield Finding(where="--allow-client-shm", found=f"true, open to all by {listener}")


@rule(
    severity="error",
    statement="restricted calls are stated as CALL,CALL:KEY=SECRET, with a colon",
    consequence="the server does not start; the --help of 2.51 prints a comma there, which is wrong",
    source="measured on tritonserver 2.51; server, docs/customization_guide/inference_protocols.md",
    remedy="put the colon; clients send triton-grpc-protocol-KEY over gRPC, and KEY over HTTP",
)
def restricted_form(command: Command) -> Iterator[Finding]:
    for flag in _LISTENERS.values():
        for value in command.flags.get(flag, ()):
            groups, colon, key = value.partition(":")
            if not (groups and colon and "=" in key):
                yield Finding(where=f"--{flag}", found=value.partition("=")[0])  # what follows is the secret


@rule(
    severity="warning",
    statement="calls that change the server need a key: shared memory, models, traces, its log",
    consequence="any client, and over HTTP any page in a browser of this machine, may register shared memory and have "
    "the server write into it, as into the Python backend's own",
    source=f"{MEASURED}; the pattern of CVE-2025-23319 and CVE-2025-23320",
    remedy="--grpc-restricted-protocol=shared-memory,model-repository,trace,logging:KEY=SECRET and the same by "
    "--http-restricted-api, with a random secret, as `attendant serve` does",
)
def open_changes(command: Command) -> Iterator[Finding]:
    for listener in _LISTENERS:
        missing = [one for one in _CHANGING if command.is_on(listener) and not command.has_key(listener, one)]
        if missing:
            yield Finding(where=f"--{_LISTENERS[listener]}", found=f"open to all: {', '.join(missing)}")
