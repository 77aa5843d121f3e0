"""One replica under load: the scheduler of serving/engine itself, with a clock and runs that take no time.

requests ─► queue ─► batch slots ─► steps (virtual time) ─► responses
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from attendant.errors import AttendantError, BusyError
from attendant.sampling_params import SamplingParams
from serving.capacity.profile import ReplicaProfile
from serving.capacity.simulated_model import SOURCE, VirtualClock, create_model
from serving.engine.engine import Engine
from serving.engine.meter import Meter
from serving.engine.request import Request
from serving.engine.request_output import RequestOutput
from serving.engine.settings import EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request to be simulated.

    Attributes:
        at_s: when its client sends it.
        prompt: tokens of it, or of its source.
        answer: tokens of it.
        priority: 0 is served before 1.
        deadline_ms: from when it is queued.
    """

    at_s: float
    prompt: int
    answer: int
    priority: int = 1
    deadline_ms: int | None = None


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """What a simulated client receives; times are seconds of the virtual clock.

    Attributes:
        sent_s: when it sent its request.
        prompt: tokens of it.
        responses_s: when each response came.
        tokens: of each response.
        held: tokens that leave with the next response.
        is_finished: whether the answer is complete.
        error: the class of the error that ended it; empty if there was none.
    """

    sent_s: float
    prompt: int
    responses_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    held: int = 0
    is_finished: bool = False
    error: str = ""


@dataclass(slots=True)
class ReplicaLoad:
    """What a replica did over a time, each as an integral over the seconds.

    Attributes:
        seconds: in all.
        worked_s: of them, those in which something was run.
        running: sequences in batch slots.
        waiting: requests in the queue.
    """

    seconds: float = 0.0
    worked_s: float = 0.0
    running: float = 0.0
    waiting: float = 0.0


@dataclass(slots=True)
class Simulation:
    """What came of a simulation.

    Attributes:
        requests: in the order of their arrivals.
        meter: of the engine.
        load: of the replica.
    """

    requests: list[SimulatedRequest]
    meter: Meter
    load: ReplicaLoad = field(default_factory=ReplicaLoad)


class Replica:
    """A server of one model on a virtual clock.

    Attributes:
        profile: what its work takes.
        engine: that schedules, as a server's does.
        clock: by which it does.
        simulation: what came of it so far.
    """

    def __init__(self, profile: ReplicaProfile, settings: EngineSettings, stream: bool = True) -> None:
        """Begin idle at 0.

        Args:
            profile: what its work takes.
            settings: of the engine; its prefix cache stays empty, as if no two prompts began alike.
            stream: whether tokens are sent as they come, or each answer whole.
        """
        self.profile, self._stream = profile, stream
        self.clock = VirtualClock()
        self.engine = Engine(create_model(profile, self.clock), settings, clock=self.clock)
        self.simulation = Simulation([], self.engine.meter)

    def run(self, arrivals: Sequence[Arrival]) -> Simulation:
        """Serve requests, in the order of their arrivals, to the end of the last answer."""
        for arrival in arrivals:
            self.advance(arrival.at_s)
            self.submit(arrival, arrival.at_s)
        while not self.engine.is_idle:
            self.step()
        return self.simulation

    def advance(self, time_s: float) -> None:
        """Step until it is so late; a step that has begun is ended."""
        while self.clock.now_s < time_s and not self.engine.is_idle:
            self.step()
        if self.clock.now_s < time_s:
            self.simulation.load.seconds += time_s - self.clock.now_s
            self.clock.now_s = time_s

    def step(self) -> None:
        """Do one step of the engine."""
        load, meter = self.simulation.load, self.simulation.meter
        began_s, worked_s, finished = self.clock.now_s, self.clock.worked_s, meter.finished
        self.engine.step()
        passed_s = self.clock.now_s - began_s
        load.seconds += passed_s
        load.worked_s += self.clock.worked_s - worked_s
        load.running += passed_s * (meter.active + meter.finished - finished)  # one that ended had a slot until now
        load.waiting += passed_s * meter.waiting

    def submit(self, arrival: Arrival, came_s: float) -> SimulatedRequest:
        """Queue a request, or refuse it.

        Args:
            arrival: the request.
            came_s: when it was queued, perhaps before the step that ended just now did.
        """
        request = SimulatedRequest(arrival.at_s, arrival.prompt)
        self.simulation.requests.append(request)
        now_s, self.clock.now_s = self.clock.now_s, min(self.clock.now_s, came_s)
        try:
            self.engine.submit(self._create_request(arrival), partial(self._receive, request))
        except BusyError as error:
            request.error = type(error).__name__
        finally:
            self.clock.now_s = now_s
        return request

    def _create_request(self, arrival: Arrival) -> Request:
        is_encoded = self.profile.encoder is not None
        return Request(
            prompt=(0,) * (1 if is_encoded else arrival.prompt),
            source={SOURCE: np.zeros((1, arrival.prompt), dtype=np.int64)} if is_encoded else {},
            max_tokens=arrival.answer,
            options=SamplingParams(priority=arrival.priority, deadline_ms=arrival.deadline_ms),
            input_tokens=arrival.prompt,
        )

    def _receive(self, request: SimulatedRequest, output: RequestOutput | AttendantError) -> None:
        if isinstance(output, AttendantError):
            request.error = type(output).__name__
        else:
            request.held += len(output.token_ids)
            request.is_finished = output.is_last
        if self._stream or request.is_finished or request.error:
            request.responses_s.append(self.clock.now_s + self.profile.served.request_s)
            request.tokens.append(request.held)
            request.held = 0
