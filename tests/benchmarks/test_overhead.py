"""All layers of every case are timed, and what each adds is what they differ by."""

import asyncio

import pytest

from benchmarks.harness.rounds import Sample
from benchmarks.harness.servers import gateway_before, triton_over
from benchmarks.overhead import ROUNDS, SETTINGS, Case, measure, report

SHORT, LONG = (Case(model="m", tokens=tokens, stream=True) for tokens in (1, 3))


def samples(milliseconds, responses):
    return [Sample(milliseconds / 1e3, 0.0, responses)] * 30


@pytest.mark.slow
def test_every_layer_of_every_case_is_timed(explained_gru, tmp_path):
    with (
        triton_over({"dates-gru": explained_gru}, tmp_path, SETTINGS) as server,
        gateway_before(server.endpoints.grpc, probe_s=3600) as (_, port),
    ):
        found = asyncio.run(measure(explained_gru, server.endpoints.grpc, port, (), blocks=1, patience_s=0.0))
    assert {layer for layers in found.values() for layer in layers} == {"in process", "Triton", "gateway"}
    assert all(len(values) == ROUNDS for layers in found.values() for values in layers.values())
    page = "\n".join(report(found))
    assert "| dates-gru, whole, 1 tokens, 1 at once | Triton over in process |" in page
    assert "| dates-gru, one answer, PNG | gateway |" in page


def test_each_further_response_takes_its_part_of_what_a_long_stream_adds_to_a_short_one():
    found = {
        SHORT: {"in process": samples(1.0, 1), "Triton": samples(2.0, 1)},
        LONG: {"in process": samples(3.0, 3), "Triton": samples(5.0, 3)},
    }
    (row,) = [line for line in "\n".join(report(found)).splitlines() if line.startswith("| m, streamed, 3 tokens")]
    assert row.split(" | ")[4:7] == ["2.00 (2.00 to 2.00)", "0.500 (0.500 to 0.500)", "missed"]
