"""What a way to serve does: a real server under the load of a demand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from attendant.temporary_folders import temporary_folder
from clients.load.analysis.slo import Objective
from clients.load.analysis.summary import summarize
from clients.load.arrivals import Arrivals, ClosedLoop, Constant, Gamma, Poisson
from clients.load.run_with_progress import run_with_progress
from clients.load.scenario import Scenario
from clients.load.sweep import sweep
from serving.capacity.demand import Demand
from serving.capacity.profiling.inputs import load_model
from serving.capacity.profiling.requests import create_scenario, write_inputs
from serving.capacity.tuning.prediction import STATISTIC, TuningTask
from serving.capacity.tuning.search_space import Candidate
from serving.engine.settings import EngineSettings
from serving.triton.canary import canary_check
from serving.triton.repository.layout import write_repository
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings

LEVELS, BISECTIONS = (0.4, 0.7, 1.0, 1.4), 2
"""Shares of the rate that is expected, and how often the gap between two is halved."""
_SWEEPS, _LOWER, _HIGHER = 3, 0.25, 2.5
"""How often rates are tried anew, where all were too high or too low, and how much lower or higher."""
_INPUTS, _START_S, _WARMUP_S = 256, 120.0, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of a way to serve.

    Attributes:
        value: of the goal; None where nothing valid was found.
        interval: its 95 % interval, where one run gave it; of a search, the rates between which it lies.
        problem: why it is not valid, or not within the objectives, and what to do; empty if it is.
        remark: what to bear in mind.
        interrupted: whether it was cut short by Ctrl-C.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    problem: str = ""
    remark: str = ""
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An artefact that is measured under a load.

    Attributes:
        artefact: its folder.
        task: what is looked for.
        objectives: that must hold.
        duration_s: of each run, after its warm-up.
    """

    artefact: Path
    task: TuningTask
    objectives: Sequence[Objective]
    duration_s: float

    def measure(self, candidate: Candidate, expected: float, title: str) -> Measured:
        """Serve it so, and send the load.

        Args:
            candidate: the way to serve.
            expected: the figure of the goal, about; rates are tried around it.
            title: of its progress.

        Raises:
            ServerError: the server does not start or answer.
        """
        task, engine = self.task, candidate.engine(EngineSettings())
        with temporary_folder() as scratch:
            repository, inputs = Path(scratch) / "model_repository", Path(scratch) / "inputs.jsonl"
            (manifest,) = write_repository(
                [self.artefact], repository, candidate.threads, engine=engine, instances=candidate.instances
            )
            name = manifest.name
            rng = np.random.default_rng(task.seed)
            lengths = [one.draw(rng, _INPUTS).tolist() for one in (task.demand.prompt, task.demand.answer)]
            write_inputs(load_model(self.artefact, engine), zip(*lengths, strict=True), inputs, task.seed)
            grpc, metrics = free_ports(2)
            settings = ServerSettings(repository=repository, grpc_port=grpc, metrics_port=metrics)
            with TritonServer(settings) as server:
                server.wait_until_ready(canary_check({name}, _START_S), _START_S)
                clients = ClosedLoop(concurrency=candidate.instances * -(-3 * candidate.max_num_seqs // 2))
                arrivals = clients if task.goal == "throughput" and not self.objectives else _arrivals(task.demand)
                scenario = create_scenario(
                    *(server.endpoints.grpc, name, inputs, arrivals),
                    warmup_s=_WARMUP_S,
                    duration_s=self.duration_s,
                    seed=task.seed,
                )
                scenario = replace(scenario, name=title)
                if task.goal == "throughput" and self.objectives:
                    return self._search(scenario, expected)
                return self._measure_once(scenario, title)

    def _search(self, scenario: Scenario, expected: float) -> Measured:
        run = partial(run_with_progress, keep_interrupted=True)
        for _ in range(_SWEEPS):
            levels = [share * expected for share in LEVELS]
            found = sweep(scenario, "rate", levels, run, self.objectives, BISECTIONS)
            highest, failing = found.highest, [step.level for step in found.steps if step.fails]
            # Server and generator share these cores: where it was late, a rate was too high for both.
            too_much = failing or [one.level for one in found.steps if one.generator_was_the_limit]
            if found.interrupted or (highest is None and not too_much):
                break
            if highest is not None and failing:
                return Measured(value=highest.level, interval=(highest.level, min(failing)))
            if highest is not None and highest.level < levels[-1]:
                break
            expected *= _LOWER if highest is None else _HIGHER
        if highest is None or found.interrupted:
            return Measured(value=None, problem=found.ended, interrupted=found.interrupted)
        return Measured(value=highest.level, remark=f"at least: {found.ended}")

    def _measure_once(self, scenario: Scenario, title: str) -> Measured:
        run = run_with_progress(scenario, title, keep_interrupted=True)
        summary = summarize(run, self.objectives)
        is_rate = self.task.goal == "throughput"
        metric = summary.metrics.get("request_throughput" if is_rate else self.task.metric)
        if run.interrupted or metric is None:
            return Measured(value=None, problem="cut short", interrupted=run.interrupted)
        statistic = "avg" if is_rate else STATISTIC
        missed = ", ".join(one.objective.text for one in summary.objectives if not one.met)
        problem = "; ".join(one.message for one in summary.validity.reasons) or (missed and f"misses {missed}")
        value = None if missed else metric.value(statistic)
        return Measured(value=value, interval=metric.intervals.get(statistic), problem=problem)


def _arrivals(demand: Demand) -> Arrivals:
    if demand.arrivals == "constant":
        return Constant(rate=demand.rate)
    return Poisson(rate=demand.rate) if demand.arrivals == "poisson" else Gamma(rate=demand.rate, shape=demand.shape)
