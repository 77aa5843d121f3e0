"""The profiles under which a graph runs, of one engine or of several: which one takes a run.

A graph whose phases are engines of their own has them side by side; their manifests say which runs each is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attendant.engine_manifest import PREFILL, Engine, Profile
from attendant.errors import InputError
from attendant.signature import GraphSignature
from serving.runtime.tensorrt.api import CudaEngine
from serving.runtime.tensorrt.engine_check import require_signature
from serving.runtime.tensorrt.execution import Shapes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase:
    """One profile of one engine.

    Attributes:
        engine: that has it.
        described: what the engine's manifest says.
        number: of the profile, in that engine.
        profile: its sizes.
        at_one_address: output → input, where the engine wants both at one address.
        repeats: whether its runs are steps of the same few kinds, which are worth recording.
    """

    engine: CudaEngine
    described: Engine
    number: int
    profile: Profile
    at_one_address: Mapping[str, str]
    repeats: bool


class Phases:
    """Those of one graph, the narrower ones first.

    Attributes:
        between_bytes: what the largest of their engines needs between inputs and outputs; one runs at a time.
    """

    def __init__(self, engines: Sequence[tuple[CudaEngine, Engine]], signature: GraphSignature) -> None:
        """Hold every engine to the graph's signature.

        Raises:
            ArtefactError: one has other tensors.
        """
        self._phases = [phase for engine, described in engines for phase in _phases(engine, described, signature)]
        self._files = [described.file for _, described in engines]
        self._list_varying = _list_varying(signature)
        self.between_bytes = max(engine.device_memory_size_v2 for engine, _ in engines)

    def find(self, shapes: Shapes) -> Phase:
        """The first that admits the shapes of a run.

        Raises:
            InputError: none does.
        """
        for phase in self._phases:
            if all(_lies_in(shapes[name][axis], axis, phase.profile.shapes[name]) for name, axis in self._list_varying):
                return phase
        raise InputError(
            f"shapes of a profile of {' or '.join(self._files)}, {[phase.profile.name for phase in self._phases]}",
            str(dict(shapes)),
            "split the request, or build the engine for other sizes",
        )


def _phases(engine: CudaEngine, described: Engine, signature: GraphSignature) -> list[Phase]:
    at_one_address = require_signature(engine, described, signature)
    return [
        Phase(
            engine=engine,
            described=described,
            number=number,
            profile=profile,
            at_one_address=at_one_address,
            repeats=bool(signature.aliases) and profile.name != PREFILL,
        )
        for number, profile in enumerate(described.profiles)
    ]


def _lies_in(size: int, axis: int, bounds: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> bool:
    return bounds[0][axis] <= size <= bounds[2][axis]


def _list_varying(signature: GraphSignature) -> list[tuple[str, int]]:
    # One place for each symbol: TensorRT refuses inputs that do not agree.
    places = {axis: (spec.name, at) for spec in signature.inputs for at, axis in enumerate(spec.axes)}
    return [places[symbol] for symbol in signature.symbols()]
