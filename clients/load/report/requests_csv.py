"""Every request as a line of CSV: what was noted of it, and what it took."""

import csv
import io
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from attendant.errors import OutputError
from attendant.output_files import write_output
from clients.load.analysis.samples import samples
from clients.load.record import RequestRecord

_NOTED = ("number", "workload", "outcome", "scheduled_s", "sent_s", "ended_s", "input_tokens", "images")
_TOOK = (
    *("credit_to_start_latency", "time_to_first_token", "inter_token_latency", "request_latency", "effective_latency"),
)
COLUMNS = (*_NOTED, "output_tokens", "responses", *(f"{name}_ms" for name in _TOOK), "error")


def write_requests(records: Iterable[RequestRecord], path: Path) -> None:
    """Write a line a request; a figure that a request does not have is left empty.

    Raises:
        OutputError: the file cannot be written.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(tuple(_row(record)) for record in records)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, text.getvalue())
    except OSError as error:
        raise OutputError(f"a place to write the requests at {path}", str(error), "choose another path") from error


def _row(record: RequestRecord) -> Iterator[object]:
    for name in _NOTED:
        value = getattr(record, name)
        yield record.outcome.value if name == "outcome" else f"{value:.6f}" if isinstance(value, float) else value
    yield sum(record.tokens)
    yield len(record.responses_s)
    found = samples([record])
    for name in _TOOK:
        yield f"{1e3 * value:.4f}" if len(found) and not math.isnan(value := getattr(found, name)[0]) else ""
    yield record.error
