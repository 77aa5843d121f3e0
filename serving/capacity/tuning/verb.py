"""The verb that tunes: how a generative model is served best on this machine (docs/guides/tune.md)."""

import sys
from dataclasses import replace
from json import dumps
from pathlib import Path
from tempfile import TemporaryFile

from tyro.conf import Positional

from attendant.cli import INTERRUPTED_STATUS
from attendant.errors import ConfigError, OutputError
from attendant.manifest import Manifest
from clients.load.analysis.slo import parse_objectives
from serving.capacity.demand import Demand, parse_rate
from serving.capacity.tuning.prediction import Goal


def tune(
    artefact: Positional[Path],
    demand: Positional[Path],
    goal: Goal = "throughput",
    objective: str | None = None,
    rate: str | None = None,
    max_num_seqs: tuple[int, ...] = (4, 8, 16, 32),
    max_prefill_tokens: tuple[int, ...] = (64, 256),
    threads: tuple[int, ...] = (),
    instances: tuple[int, ...] = (),
    finalists: int = 3,
    duration_s: float = 5.0,
    requests: int = 1000,
    seed: int = 0,
    profiles: Path | None = None,
    json: bool = False,
    exploratory: bool = False,
) -> int:
    """Find the settings with which a generative model is served best here: all by simulation, the best by measurement.

    attendant load tune build/stdlib-lm docs/examples/capacity/chat.toml --objective "ttft p95 < 200 ms"

    It profiles the model, simulates every combination of the values below, serves the best few and the defaults on a
    real Triton, and prints a table and the command to use. Exit status 1 if nothing valid was measured; Ctrl-C keeps
    what was measured until then, with exit status 130.

    Args:
        artefact: that `attendant export onnx` or `attendant export torch` wrote.
        demand: how long prompts and answers are and how they come, a TOML file (docs/guides/capacity.md).
        goal: the highest rate that keeps the objectives; or the lowest p95 of the first token (ttft) or of the whole
            answer (latency) at the demand's rate.
        objective: that must hold, instead of the demand's, as "ttft p95 < 200 ms, itl p95 < 50 ms"; "" for none.
        rate: instead of the demand's, as 20/s.
        max_num_seqs: slots to try.
        max_prefill_tokens: positions of prompts in a step to try.
        threads: of a run to try; the powers of two up to the cores if not given.
        instances: processes to try; likewise. Threads times instances are at most the cores.
        finalists: how many are measured, beside the defaults.
        duration_s: of each run, after a warm-up of a second; a rate takes three to six runs.
        requests: that are simulated of each combination.
        seed: of arrivals and lengths.
        profiles: folder of profiles by `attendant capacity measure`, one for each number of threads (threads-1.json);
            what it lacks is measured and written there.
        json: JSON in place of the table.
        exploratory: for a look: a profile whose fit errs by more than 20 % is taken too, and the exit status is 0.
    """
    # A server and an engine, which the other verbs that this module could be imported with do not need.
    from serving.capacity.levels import MOST_SEED
    from serving.capacity.profile import ReplicaProfile
    from serving.capacity.profiling.measure import measure_profile
    from serving.capacity.tuning.measurement import Bench
    from serving.capacity.tuning.prediction import TuningTask
    from serving.capacity.tuning.report import print_tuning, tuning_json
    from serving.capacity.tuning.search_space import list_candidates
    from serving.capacity.tuning.tune import tune as search
    from serving.engine.settings import EngineSettings

    for name, value, least, most in (
        ("finalists", finalists, 1, 16),
        ("duration-s", duration_s, 1, 600),
        ("requests", requests, 100, 100_000),
        ("seed", seed, 0, MOST_SEED),
    ):
        if not least <= value <= most:
            raise ConfigError(f"--{name} from {least} to {most}", str(value), "correct it")
    service = Demand.read(demand)
    if rate is not None:
        service = replace(service, rate=parse_rate(rate))
    objectives = parse_objectives(service.slo if objective is None else objective)
    candidates = list_candidates(max_num_seqs, max_prefill_tokens, threads, instances)
    manifest = Manifest.read(artefact)
    _require_measurable(manifest, artefact, service)
    if profiles is not None:
        _require_folder(profiles)
    sys.stderr.write(f"{len(candidates)} ways to serve {artefact}: profiles, simulations, {finalists + 1} servers\n")
    task = TuningTask(goal=goal, demand=service, objectives=objectives, requests=requests, seed=seed)
    bench = Bench(artefact=artefact, task=task, objectives=objectives, duration_s=duration_s)
    engine = EngineSettings(
        max_num_seqs=max(one.max_num_seqs for one in candidates),
        max_prefill_tokens=max(one.max_prefill_tokens for one in candidates),
    )

    def profile(count: int) -> ReplicaProfile:
        path = None if profiles is None else profiles / f"threads-{count}.json"
        is_known = path is not None and path.is_file()
        if path is not None and is_known:
            found = ReplicaProfile.read(path)
            is_of_it = found.fingerprint == manifest.fingerprint if found.fingerprint else found.name == artefact.name
            if not is_of_it:
                found_name = f"{found.name!r}, or another export"
                remedy = "delete it, or name another folder with --profiles"
                raise ConfigError(f"a profile of {artefact} in {path}", found_name, remedy)
        else:
            found = measure_profile(artefact, engine, count, served=False)
        if found.misfit and not exploratory:
            remedy = f"{f'delete {path}, ' if is_known else ''}or give --exploratory for a look"
            raise ConfigError(f"a profile of {count} thread(s) that fits what was measured", found.misfit, remedy)
        if path is not None and not is_known and not found.misfit:  # one that does not fit is measured again
            found.write(path)
        return found

    found = search(task, candidates, profile, bench.measure, finalists)
    if json:
        sys.stdout.write(dumps(tuning_json(found), indent=2, allow_nan=False) + "\n")
    else:
        print_tuning(found, str(artefact))
    if found.interrupted:
        return INTERRUPTED_STATUS
    return 1 if found.best is None and not exploratory else 0


def _require_folder(profiles: Path) -> None:
    """Refuse a place where no profile can be kept, before one is measured."""
    remedy = "name another folder with --profiles"
    try:
        profiles.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=profiles).close()
    except OSError as error:
        raise OutputError(f"a folder to write profiles into at {profiles}", str(error), remedy) from error
    for path in profiles.glob("threads-*.json"):
        if not path.is_file():
            raise OutputError(f"a profile at {path}", "no file", remedy)


def _require_measurable(manifest: Manifest, artefact: Path, demand: Demand) -> None:
    """Refuse what a run could not send, before anything is profiled."""
    from serving.capacity.profiling.inputs import engine_of  # needs an engine, as above

    engine_of(manifest, artefact)
    if not demand.stream or demand.deadline_ms is not None or demand.urgent:
        expected = "a demand whose answers are streamed, without deadline_ms and urgent"
        raise ConfigError(expected, "another", "leave them out: a load test of all requests alike is measured")
    longest, most = demand.prompt.longest + demand.answer.longest, manifest.details.get("max_length")
    if isinstance(most, int) and longest > most:
        expected = f"prompt and answer of at most {most} positions together, as the model has"
        raise ConfigError(expected, f"up to {longest}", "correct 'most' of prompt or answer")
