"""Every request is a line, with what it lacks left empty."""

import csv
from dataclasses import replace

import pytest

from attendant.errors import OutputError
from clients.load.record import RequestOutcome
from clients.load.report.requests_csv import COLUMNS, write_requests
from tests.clients.load.simulated import records


def test_every_request_is_a_line(tmp_path):
    stream, unary = records(count=1, tokens=5)[0], records(count=1)[0]
    failed = replace(unary, outcome=RequestOutcome.ERROR, error='no, "really"\nno', responses_s=())
    write_requests([stream, unary, failed], tmp_path / "requests.csv")
    with (tmp_path / "requests.csv").open(newline="") as file:
        first, second, third = csv.DictReader(file)
    assert tuple(first) == COLUMNS
    assert (first["output_tokens"], first["responses"], first["outcome"]) == ("5", "5", "ok")
    assert float(first["time_to_first_token_ms"]) == pytest.approx(
        1e3 * (stream.responses_s[0] - stream.sent_s), abs=1e-3
    )
    assert (second["time_to_first_token_ms"], second["inter_token_latency_ms"]) == ("", "")
    assert (third["request_latency_ms"], third["error"]) == ("", 'no, "really"\nno')


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(OutputError):
        write_requests([], tmp_path)
