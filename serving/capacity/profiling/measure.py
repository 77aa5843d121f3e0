"""An artefact → the profile of a replica of it on this machine."""

import os
from dataclasses import replace
from pathlib import Path

from attendant.manifest import Manifest
from attendant.parameters import Device, Runtime
from serving.capacity.profile import ReplicaProfile
from serving.capacity.profiling.grids import Grids
from serving.capacity.profiling.inputs import load_model
from serving.capacity.profiling.overhead import measure_engine
from serving.capacity.profiling.server import measure_server
from serving.engine.settings import EngineSettings
from serving.runtime.processor import processor_name


def measure_profile(
    folder: Path,
    settings: EngineSettings,
    threads: int = 1,
    runtime: Runtime = "auto",
    device: Device = "auto",
    served: bool = True,
) -> ReplicaProfile:
    """Measure an artefact.

    Args:
        folder: of a model that answers with text.
        settings: up to as many slots and prompt tokens.
        threads: that one run of a graph may use.
        runtime: that runs it.
        device: that artefacts of torch run on.
        served: whether a tritonserver is started for what serving adds; without, that is nothing.

    Raises:
        UserError: the artefact answers with something else.
        ServerError: the server does not start or answer.
    """
    settings = replace(settings, prefix_cache_bytes=0)
    model = load_model(folder, settings, threads, runtime, device)
    grids = Grids(model, settings.max_num_seqs)
    decode, prompt, encoder = grids.decode(), grids.prompt(settings.max_prefill_tokens), grids.encoder()
    prompt_table, encoder_table = (None if one is None else one.table for one in (prompt, encoder))
    measured = {"decode": decode, "prompt": prompt, "encoder": encoder}
    profile = ReplicaProfile(
        name=folder.name,
        machine=f"{processor_name()}, {os.cpu_count()} cores, {threads} thread(s) a run",
        capacity=grids.capacity,
        decode=decode.table,
        prompt=prompt_table,
        encoder=encoder_table,
        overhead=measure_engine(model, decode.table, prompt_table, encoder_table),
        fingerprint=Manifest.read(folder).fingerprint,
        fit_error={name: one.error for name, one in measured.items() if one is not None},
    )
    return measure_server(folder, model, profile, settings, threads, runtime, device) if served else profile
