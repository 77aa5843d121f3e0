"""Run a scenario: send each request at its time, note what becomes of it, and monitor the generator itself."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from attendant.errors import UnreachableError
from clients.load.arrivals import ClosedLoop
from clients.load.environment import describe_environment
from clients.load.generator import LoadGenerator
from clients.load.generator_monitor import GeneratorMonitor
from clients.load.in_process import measure_in_process
from clients.load.record import LoadRun, RequestRecord
from clients.load.request_inputs import create_inputs
from clients.load.scenario import Scenario
from clients.load.schedule import INPUTS, draw_schedule, plan_requests, random_numbers
from clients.load.server_counts import ServerCounter
from clients.load.synthetic_prompts import NOTE, create_synthetic
from clients.load.transport import PreparedWorkload, Transport, create_transport

OnRecord = Callable[[RequestRecord], None]


async def run_load(
    scenario: Scenario, on_record: OnRecord | None = None, command: str = "", keep_interrupted: bool = False
) -> LoadRun:
    """Run a scenario from its first request to the last answer.

    Args:
        scenario: what is sent, when, and where to.
        on_record: is called with each request as soon as it has ended; it must return at once, for it runs in the
            generator's own event loop.
        command: that began the run, for the report.
        keep_interrupted: whether a run that is cancelled, as Ctrl-C does, returns what was measured until then.

    Raises:
        UnreachableError: nothing answers at the address.
        UnknownNameError: the server has no model of that name.
        InputError: the inputs do not fit the model, or a file cannot be read.
    """
    transport = create_transport(scenario.target)
    try:
        prepared = await prepare_workloads(scenario, transport)
        in_process_s = await measure_in_process(scenario, prepared)
        run = await _measure(scenario, transport, prepared, on_record, keep_interrupted)
    finally:
        await transport.close()
    environment = describe_environment(scenario.target.address) | transport.notes
    return replace(run, command=command, environment=environment, in_process_s=in_process_s)


async def prepare_workloads(scenario: Scenario, transport: Transport) -> list[PreparedWorkload]:
    """The requests of all workloads, ready to be sent.

    Raises:
        UnreachableError: nothing answers at the address.
        UnknownNameError: the server has no model of that name.
        InputError: the inputs do not fit the model, or a file cannot be read.
    """
    rng, prepared = random_numbers(scenario, INPUTS), []
    for workload in scenario.workloads:
        model = await transport.model(workload.model)
        if workload.inputs.kind == "synthetic":
            count = partial(transport.probe_tokens, workload, model)
            inputs, transport.notes[f"{NOTE}, {workload.name}"] = await create_synthetic(workload, rng, count)
        else:
            inputs = create_inputs(workload, model, rng)
            counts = await transport.count_tokens(workload, model, inputs)
            inputs = [replace(one, input_tokens=count) for one, count in zip(inputs, counts, strict=True)]
        prepared.append(PreparedWorkload(workload, model, inputs, await transport.prepare(workload, model, inputs)))
    return prepared


async def _measure(
    scenario: Scenario,
    transport: Transport,
    prepared: list[PreparedWorkload],
    on_record: OnRecord | None,
    keep_interrupted: bool,
) -> LoadRun:
    is_closed = isinstance(scenario.arrivals, ClosedLoop)
    schedule, names = (None, []) if is_closed else draw_schedule(scenario)
    generator = LoadGenerator(scenario, transport, prepared, plan_requests(scenario, prepared, names), on_record)
    counter = await ServerCounter.start(scenario)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    gc.collect()
    gc.freeze()  # what was made before is not looked through again while requests are timed
    monitor, interrupted = GeneratorMonitor(), False
    try:
        await generator.run(schedule)
    except asyncio.CancelledError:
        if not keep_interrupted or not generator.records:
            raise
        interrupted = True
    finally:
        usage = await monitor.stop()
        gc.unfreeze()
    records = tuple(sorted(generator.records, key=lambda record: record.number))
    try:
        counts = await counter.stop(len(records))
    except UnreachableError as error:  # as of a server that the load has ended
        counts, transport.notes["metrics"] = None, str(error)
    return LoadRun(
        scenario=scenario.plain(),
        records=records,
        generator=usage,
        server=counts,
        duration_s=max((record.ended_s for record in records), default=0.0),
        started_at=started_at,
        command="",
        environment={},
        interrupted=interrupted,
    )
