"""The verbs on a server: lay a repository out, lint it, serve it, measure what that takes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import OmitArgPrefixes, Positional

from attendant.errors import ArtefactError, ConfigError, UserError
from attendant.parameters import Device, Runtime
from attendant.printable import printable
from attendant.standard_streams import never_wait_for_readers
from attendant.tasks import resolve
from serving.certificates import ListenTls, OwnTls
from serving.descriptors import raise_descriptor_limit
from serving.engine.settings import EngineSettings
from serving.gateway.access_settings import AccessSettings
from serving.interrupts import heed_signals, ignore_signals, run_until_interrupted

if TYPE_CHECKING:
    from clients.tls import Tls
    from serving.gateway.sidecar import GatewaySidecar
    from serving.triton.server.process import TritonServer
    from serving.triton.server.settings import ServerSettings

_ENGINE = EngineSettings()
_OPEN, _LISTEN_PLAIN = AccessSettings(), ListenTls()


def repository(
    folders: Positional[tuple[Path, ...]],
    out: Path,
    threads: int = 1,
    runtime: Runtime = "auto",
    device: Device = "auto",
    instances: int = 1,
    engine: OmitArgPrefixes[EngineSettings] = _ENGINE,
) -> int:
    """Lay exported artefacts out as a Triton model repository, in one step; models not named stay.

    Args:
        folders: artefacts that `attendant export onnx` or `attendant export torch` wrote.
        out: the repository.
        threads: that one run of a graph may use; one is fastest for small models.
        runtime: that runs them. auto: TensorRT, where the artefact holds a graph's engine; else OpenVINO, where the
            server has it and the graph is large, decoders on ONNX Runtime. openvino-bf16 is about twice as fast on CPUs
            with bf16, and about three digits exact.
        device: that artefacts of `attendant export torch` run on. auto: a GPU, where the server's torch sees one.
            cuda-no-gluon: a GPU, without kernels in Triton's experimental language Gluon.
        instances: processes of each model, each with slots and memory of its own. Of a generative model with several,
            a request whose client leaves is decoded to its end: nobody knows which process has it.
        engine: how much at once, of generative models.
    """
    from attendant.no_tokenizer import NOTE
    from attendant.tokenization import has_tokenizer
    from serving.engine.cache_plan import CachePlan
    from serving.triton.repository.layout import write_repository

    if not folders:
        raise UserError("an artefact's folder", "none", "name one or more after the verb")
    for manifest in write_repository(folders, out, threads, runtime, engine, device, instances):
        decoders = [manifest.signature_for(one.name, "ort-cpu") for one in manifest.graphs if one.name == "decoder"]
        plans = "".join(f"; {CachePlan.of(decoder, engine.max_num_seqs)}" for decoder in decoders)
        note = f"; {NOTE}" if manifest.task == "generate" and not has_tokenizer(manifest.files) else ""
        sys.stdout.write(f"{out / manifest.name}: {manifest.task}, {len(manifest.graphs)} graph(s){plans}{note}\n")
    return 0


def profile(
    artefact: Positional[Path],
    out: Path,
    threads: int = 1,
    runtime: Runtime = "auto",
    device: Device = "auto",
    gpus: int = 0,
    served: bool = True,
    max_num_seqs: int = _ENGINE.max_num_seqs,
    max_prefill_tokens: int = _ENGINE.max_prefill_tokens,
    exploratory: bool = False,
) -> int:
    """Measure a generative model on this machine, for `attendant capacity plan`; exit status 1 if the fit is poor.

    Args:
        artefact: that `attendant export onnx` or `attendant export torch` wrote.
        out: the profile, a JSON file; docs/guides/capacity.md says what stands in it.
        threads: that one run of a graph may use, as it will be served.
        runtime: that runs it.
        device: that artefacts of `attendant export torch` run on.
        gpus: of one replica, for the price.
        served: start a tritonserver and measure what serving adds; without, a plan knows of no such costs.
        max_num_seqs: most sequences at once that are measured, and that a plan can have.
        max_prefill_tokens: most positions of prompts in a step, likewise.
        exploratory: for a look: exit status 0 where the fit errs by more than 20 % too.
    """
    from clients.load.run_file import require_writable
    from serving.capacity.profiling.measure import measure_profile

    require_writable(out)
    settings = EngineSettings(max_num_seqs=max_num_seqs, max_prefill_tokens=max_prefill_tokens)
    found = replace(measure_profile(artefact, settings, threads, runtime, device, served), gpus=gpus)
    found.write(out)
    errors = ", ".join(f"{name} {error:.1%}" for name, error in found.fit_error.items())
    sys.stdout.write(f"{out}: {found.name} on {found.machine}; largest errors of the fit: {errors}\n")
    if found.misfit:
        sys.stdout.write(f"{'EXPLORATORY' if exploratory else 'INVALID'}: {found.misfit}\n")
    return 1 if found.misfit and not exploratory else 0


def engines(repository: Positional[Path] = Path("model_repository")) -> int:
    """Check that this machine can run every engine of a repository, before a server loads them.

    Args:
        repository: that a server shall be started on; one without engines is well everywhere.
    """
    from serving.triton.repository.engine_check import check_engines

    for manifest in check_engines(repository):
        files = ", ".join(engine.file for engine in manifest.engines)
        sys.stdout.write(printable(f"{manifest.name}: {files} for {manifest.platform.gpu}, as here") + "\n")
    return 0


def trust(artefact: Positional[Path]) -> int:
    """Say that you know who built an artefact's engines: TensorRT runs what lies in them.

    Args:
        artefact: with `engine.json`; those that you build yourself are known.
    """
    from attendant.engine_manifest import EngineManifest
    from serving.runtime.tensorrt.known_engines import remember_engines

    if (manifest := EngineManifest.read(artefact)) is None:
        raise ArtefactError(f"engines in {artefact}", "none", "build them: `attendant export tensorrt`")
    remember_engines(artefact)
    files = ", ".join(engine.file for engine in manifest.engines)
    sys.stdout.write(printable(f"{manifest.name}: {files} may run here, for this user") + "\n")
    return 0


def serve(
    paths: Positional[tuple[str, ...]] = (),
    repository: Path | None = None,
    explain: bool = False,
    http_port: int = 0,
    grpc_port: int = 8001,
    metrics_port: int = 8002,
    gateway_port: int | None = None,
    host: str = "127.0.0.1",
    models: tuple[str, ...] = (),
    start_timeout_s: float = 60.0,
    drain_timeout_s: int = 10,
    watch_s: float = 0.5,
    log: Literal["file", "terminal"] = "file",
    otlp: str = "",
    admin_key_file: Path | None = None,
    access: OmitArgPrefixes[AccessSettings] = _OPEN,
    listen: OmitArgPrefixes[ListenTls] = _LISTEN_PLAIN,
) -> int:
    """Start tritonserver, wait until every model answers its example, and stop it on Ctrl-C.

    With PATHS, each is imported, exported and verified first, in one go, and from a cache the next time.

    A model whose worker dies or hangs is loaded anew within seconds, and all others go on; a server that does is
    started anew. A model that cannot be loaded, or answers its example wrongly, is not served, and tried again later.

    Args:
        paths: of models: Hugging Face folders, .gguf files, checkpoints, .py or .pt2 files, artefacts, or names of
            `attendant models list`; without any, a repository is served.
        repository: what `attendant repository` wrote; model_repository if not given. With PATHS, where they are laid
            out; a folder of the cache if not given.
        explain: let each of PATHS also show what it attends to, on the page and to clients that ask.
        http_port: for KServe v2 over REST, by which a single hostile request can end tritonserver 2.51; 0 for none.
        grpc_port: for KServe v2 over gRPC.
        metrics_port: for Prometheus.
        gateway_port: for OpenAI's API and the playground, a page to try the models on; 0 for neither. If not given,
            8080 with PATHS, and 0 without.
        host: address to listen on; 0.0.0.0 opens the server to the network, without a password.
        models: which models to load; all of them if none is named.
        start_timeout_s: longest time until the server is ready, and until a model is loaded anew, in seconds.
        drain_timeout_s: how long running requests may take to finish at the end, in seconds.
        watch_s: seconds between one look at every model and the next; 0 for none, and nothing is replaced.
        log: where the server's own output goes.
        otlp: base URL of an OpenTelemetry collector that spans of every request go to.
        admin_key_file: file of the key for calls that change the server, as registering shared memory; written if it is
            not there. Without it nobody gets the key.
        access: who may ask the gateway; Triton's own ports know neither keys nor names.
        listen: TLS of gRPC and of the gateway. Triton reads the files at its start alone.
    """
    from clients.calls import ignore_events_of_closed_loops
    from serving.triton.repository.engine_check import check_engines, find_unfit
    from serving.triton.server.admin_key import load_admin_key, new_admin_key
    from serving.triton.server.process import TritonServer
    from serving.triton.server.settings import ServerSettings
    from serving.triton.server.supervisor import Supervision, supervise

    port = gateway_port if gateway_port is not None else (8080 if paths else 0)
    settings = ServerSettings(
        repository=repository or Path("model_repository"),
        http_port=http_port,
        grpc_port=grpc_port,
        metrics_port=metrics_port,
        address=host,
        models=models,
        drain_timeout_s=drain_timeout_s,
        otlp=otlp,
        listen=listen,
        admin_key=load_admin_key(admin_key_file) if admin_key_file else new_admin_key(),
    )
    if access != _OPEN and not port:
        given = ", ".join(f"--{name.replace('_', '-')}" for name, value in asdict(access).items() if value)
        raise ConfigError("--gateway-port", f"{given} alone", "give the gateway a port, or leave its options out")
    if paths and models:
        raise ConfigError("PATHS, or --models of a repository", "both", "leave one of them out")
    if explain and not paths:
        raise ConfigError("PATHS beside --explain", "none", "export with --explain what the repository holds")
    listen.own_grpc_client()  # what is wrong with the files is said before any work
    own_client = OwnTls(tls=listen.is_on)
    never_wait_for_readers()
    ignore_events_of_closed_loops()
    raise_descriptor_limit()
    heed_signals()
    supervision = Supervision(start_timeout_s=start_timeout_s, watch_s=watch_s)
    sidecar = _gateway(settings, port, own_client, access) if port else nullcontext()
    try:
        with sidecar as gateway:
            if paths:
                settings = _prepare(settings, paths, repository, explain)
            if settings.models:
                check_engines(settings.repository, settings.models)
            else:
                find_unfit(settings.repository)  # which the server leaves out
            _compile_operators(settings.repository)
            supervising = supervise(
                lambda: TritonServer(
                    settings,
                    log=log,
                    drained_s=lambda: gateway.leaving_s if gateway else 0.0,
                    own_client=own_client,
                ),
                supervision,
                lambda server, failed: _when_ready(server, failed, gateway),
            )
            run_until_interrupted(supervising if gateway is None else gateway.watch(supervising))
    except KeyboardInterrupt:
        ignore_signals()
        sys.stderr.write("stopping: running requests may finish\n")
    return 0


def _prepare(
    settings: ServerSettings, paths: tuple[str, ...], repository: Path | None, explain: bool
) -> ServerSettings:
    from serving.triton.server.installation import find_installation
    from serving.triton.server.ports import check_ports_free

    find_installation()  # what would stop the server stops it before the work
    check_ports_free(settings)
    prepared = resolve("commands.model_paths:prepare_models")(paths, repository, explain=explain)
    return replace(settings, repository=prepared.repository, models=prepared.models)


def _compile_operators(repository: Path) -> None:
    """Before workers do, whose starts are bounded."""
    from serving.runtime.ort.kernels.library import FORM, kernels

    if any(repository.glob(f"*/*/*.{FORM}.onnx")):
        kernels(say=sys.stderr.write)


def _gateway(
    server: ServerSettings, port: int, tls: Tls, access: AccessSettings
) -> AbstractContextManager[GatewaySidecar]:
    from serving.gateway.settings import GatewaySettings, otlp_endpoint
    from serving.gateway.sidecar import run_sidecar
    from serving.triton.server.endpoints import endpoints_at

    triton = endpoints_at(server.address, server.http_port, server.grpc_port, server.metrics_port).grpc
    settings = GatewaySettings(
        tritons=(triton,),
        host=server.address,
        port=port,
        drain_timeout_s=server.drain_timeout_s,
        otlp=otlp_endpoint(),
        tls=tls,
        listen=server.listen,
        **asdict(access),
    )
    return run_sidecar(settings, triton.rpartition(":")[0])


def lint(
    repository: Positional[Path] = Path("model_repository"),
    command: str | None = None,
    server_version: str = "",
    json: bool = False,
    rules: bool = False,
) -> int:
    """Find the traps of a Triton model repository, and explain each; exit status 1 if one is an error.

    Args:
        repository: any model repository; every config.pbtxt is read, and nothing is started.
        command: the command line of a tritonserver, which has rules of its own.
        server_version: of a tritonserver, as 2.51.0 or its container's 24.10: its known vulnerabilities are named.
        json: print the problems as JSON instead of tables.
        rules: print every rule as docs/reference/lint-rules.md instead, and read nothing.
    """
    from serving.lint.check import check_command, check_repository, check_version
    from serving.lint.command import parse_command
    from serving.lint.page import lint_page
    from serving.lint.report import print_problems

    if rules:
        sys.stdout.write(lint_page())
        return 0
    problems = check_repository(repository)
    if command is not None:
        read = parse_command(command)
        problems += check_command(replace(read, version=server_version or read.version))
    elif server_version:
        problems += check_version(server_version)
    if json:
        sys.stdout.write(dumps([problem.to_json() for problem in problems], indent=2) + "\n")
    else:
        print_problems(str(repository), problems)
    return int(any(problem.severity == "error" for problem in problems))


def offline(model: Positional[Path]) -> int:
    """Answer the requests on standard input in this process, and print the seconds of each as JSON.

    Args:
        model: its folder in a model repository. `attendant load run` sends the requests, to tell what serving
            adds.
    """
    from serving.triton.offline import read_requests, time_requests

    sys.stdout.write(dumps(time_requests(model, list(read_requests(sys.stdin.buffer)))) + "\n")
    return 0


def _when_ready(server: TritonServer, failed: Mapping[str, str], gateway: GatewaySidecar | None) -> None:
    endpoints = server.endpoints
    if gateway is not None:
        gateway.start()
    well = [name for name in server.models if name not in failed]
    lines = (
        f"every model answered its example: {', '.join(well)}" if well else "no model answers yet",
        *(f"not served, and tried again: {name}: {reason}" for name, reason in failed.items()),
        f"gRPC     {endpoints.grpc}",
        *([f"REST     http://{endpoints.http}/v2"] if endpoints.http else []),
        f"metrics  http://{endpoints.metrics}/metrics",
        f"log      {server.log}",
        *([f"gateway  {gateway.url}/v1", f"page     {gateway.url}"] if gateway is not None else []),
        "Ctrl-C stops it",
    )
    sys.stdout.write("\n".join(map(printable, lines)) + "\n")
    sys.stdout.flush()
