"""Run a scenario: send each request at its time, note what becomes of it, and watch the generator itself."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from clients.load.arrivals import ClosedLoop
from clients.load.environment import environment
from clients.load.generator import Generator
from clients.load.generator_monitor import GeneratorMonitor
from clients.load.in_process import in_process_seconds
from clients.load.plan import QUESTIONS, choices, intended_times, random_numbers
from clients.load.questions import questions_of
from clients.load.record import LoadRun, RequestRecord
from clients.load.scenario import Scenario
from clients.load.server_counts import ServerCounter
from clients.load.transport import Prepared, Transport, transport_to

OnRecord = Callable[[RequestRecord], None]


async def run_load(scenario: Scenario, on_record: OnRecord | None = None, command: str = "") -> LoadRun:
    """Run a scenario from its first request to the last answer.

    Args:
        scenario: what is sent, when, and to whom.
        on_record: is told of each request as soon as it has ended; it must return at once, for it runs in the
            generator's own event loop.
        command: that began the run, for the report.

    Raises:
        UnreachableError: nothing answers at the address.
        UnknownNameError: the server has no model of that name.
        InputError: the inputs do not fit the model, or a file cannot be read.
    """
    transport = transport_to(scenario.target)
    try:
        prepared = await prepare(scenario, transport)
        in_process = await in_process_seconds(scenario, prepared)
        made = await _measured(scenario, transport, prepared, on_record)
    finally:
        await transport.close()
    notes = environment(scenario.target.address) | transport.notes
    return replace(made, command=command, environment=notes, in_process_s=in_process)


async def prepare(scenario: Scenario, transport: Transport) -> list[Prepared]:
    """The requests of all workloads, ready to be sent.

    Raises:
        UnreachableError: nothing answers at the address.
        UnknownNameError: the server has no model of that name.
        InputError: the inputs do not fit the model, or a file cannot be read.
    """
    rng, made = random_numbers(scenario, QUESTIONS), []
    for workload in scenario.workloads:
        model = await transport.model(workload.model)
        questions = questions_of(workload, model, rng)
        counts = await transport.input_tokens(workload, model, questions)
        questions = [replace(one, input_tokens=count) for one, count in zip(questions, counts, strict=True)]
        made.append(Prepared(workload, model, questions, await transport.prepare(workload, model, questions)))
    return made


async def _measured(
    scenario: Scenario, transport: Transport, prepared: list[Prepared], on_record: OnRecord | None
) -> LoadRun:
    is_closed = isinstance(scenario.arrivals, ClosedLoop)
    intended, names = (None, []) if is_closed else intended_times(scenario)
    generator = Generator(scenario, transport, prepared, choices(scenario, prepared, names), on_record)
    counter = await ServerCounter.begin(scenario)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    gc.collect()
    gc.freeze()  # what was made before is not looked through again while requests are timed
    watch = GeneratorMonitor()
    try:
        await generator.run(intended)
    finally:
        watched = await watch.end()
        gc.unfreeze()
    records = tuple(sorted(generator.records, key=lambda record: record.number))
    return LoadRun(
        scenario=scenario.plain(),
        records=records,
        watch=watched,
        server=await counter.end(len(records)),
        duration_s=max((record.ended_s for record in records), default=0.0),
        started_at=started_at,
        command="",
        environment={},
    )
