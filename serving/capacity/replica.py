"""One replica under load: the scheduler of serving/engine itself, with a clock and runs that take no time.

requests ─► line ─► slots ─► steps (virtual time) ─► sending (virtual time) ─► what clients hear
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from operator import attrgetter

import numpy as np

from attendant.errors import BusyError
from attendant.sampling_params import SamplingParams
from serving.capacity.profile import Profile
from serving.capacity.sending import Heard, Sending
from serving.capacity.simulated_model import SOURCE, simulated
from serving.capacity.virtual_clock import VirtualClock
from serving.engine.engine import Engine
from serving.engine.meter import Meter
from serving.engine.request import Request
from serving.engine.settings import EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request to be simulated.

    Attributes:
        at_s: when its client sends it.
        prompt: tokens of it, or of its source.
        answer: tokens of it.
        priority: 0 is served before 1.
        deadline_ms: from when it stands in line.
    """

    at_s: float
    prompt: int
    answer: int
    priority: int = 1
    deadline_ms: int | None = None


@dataclass(slots=True)
class Load:
    """What a replica did over a time, each as an integral over the seconds.

    Attributes:
        seconds: in all.
        worked_s: of them, those in which something was run.
        active: sequences in slots.
        waiting: requests in line.
    """

    seconds: float = 0.0
    worked_s: float = 0.0
    active: float = 0.0
    waiting: float = 0.0


@dataclass(slots=True)
class Simulated:
    """What came of a simulation.

    Attributes:
        heard: of each request, in the order of their arrivals.
        meter: of the engine.
        load: of the replica.
    """

    heard: list[Heard]
    meter: Meter
    load: Load = field(default_factory=Load)


class Replica:
    """A server of one model on a virtual clock.

    Attributes:
        profile: what its work takes.
        engine: that schedules, as a server's does.
        sending: that answers its clients.
        clock: by which it does.
        simulated: what came of it so far.
    """

    def __init__(
        self, profile: Profile, settings: EngineSettings, stream: bool = True, tokens_per_s: float = inf
    ) -> None:
        """Begin idle at 0.

        Args:
            profile: what its work takes.
            settings: of the engine; its prefix cache stays empty, as if no two prompts began alike.
            stream: whether tokens are sent as they come, or each answer whole.
            tokens_per_s: of answers, that will be asked for.
        """
        additions = profile.additions(tokens_per_s)
        self.profile = profile
        self.sending = Sending(additions.draws("first_response_s", 4), additions.draws("response_s", 5), stream)
        self.clock = VirtualClock(self.sending)
        self.engine = Engine(simulated(profile, self.clock, additions), settings, clock=self.clock)
        self.simulated = Simulated([], self.engine.meter)
        self._way_s = additions.draws("way_s", 6)

    def run(self, arrivals: Sequence[Arrival]) -> Simulated:
        """Serve requests, in the order of their arrivals, to the end of the last answer."""
        coming = [(arrival.at_s + self._way_s(), number) for number, arrival in enumerate(arrivals)]
        for came_s, number in sorted(coming):  # the later can be faster
            self.advance(came_s)
            self.submit(arrivals[number], came_s)
        while not self.engine.is_idle:
            self.step()
        self.sending.finish(self.clock.now_s)
        self.simulated.heard.sort(key=attrgetter("scheduled_s"))
        return self.simulated

    def advance(self, time_s: float) -> None:
        """Step until it is so late; a step that has begun is ended."""
        while self.clock.now_s < time_s and not self.engine.is_idle:
            self.step()
        if self.clock.now_s < time_s:
            began_s = self.clock.now_s
            self.clock.idle_until(time_s)
            self.simulated.load.seconds += self.clock.now_s - began_s

    def step(self) -> None:
        """Do one step of the engine."""
        load, meter = self.simulated.load, self.simulated.meter
        began_s, worked_s, finished = self.clock.now_s, self.clock.worked_s, meter.finished
        self.engine.step()
        passed_s = self.clock.now_s - began_s
        load.seconds += passed_s
        load.worked_s += self.clock.worked_s - worked_s
        load.active += passed_s * (meter.active + meter.finished - finished)  # who ended had a slot until now
        load.waiting += passed_s * meter.waiting

    def submit(self, arrival: Arrival, came_s: float) -> Heard:
        """Put a request in line; one that is refused is told so.

        Args:
            arrival: the request.
            came_s: when it stood in line, perhaps before the step that ended just now did.
        """
        heard = Heard(arrival.at_s, arrival.prompt)
        self.simulated.heard.append(heard)
        now_s, self.clock.now_s = self.clock.now_s, min(self.clock.now_s, came_s)
        try:
            self.engine.submit(self._request(arrival), partial(self.sending.say, heard))
        except BusyError as error:
            heard.error = type(error).__name__
        finally:
            self.clock.now_s = now_s
        return heard

    def _request(self, arrival: Arrival) -> Request:
        reads = self.profile.encoder is not None
        return Request(
            prompt=(0,) * (1 if reads else arrival.prompt),
            source={SOURCE: np.zeros((1, arrival.prompt), dtype=np.int64)} if reads else {},
            max_tokens=arrival.answer,
            options=SamplingParams(priority=arrival.priority, deadline_ms=arrival.deadline_ms),
            input_tokens=arrival.prompt,
        )
