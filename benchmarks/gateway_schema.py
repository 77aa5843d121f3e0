"""Generated requests against the gateway's OpenAPI schema, before a real Triton with a model of every task.

    python benchmarks/gateway_schema.py [--examples N] [--seed N] [--out DIR] [--scratch DIR]

Schemathesis makes them, N valid and N invalid ones of each operation (benchmarks/gateway/by_schema.py says what answers
are held to); the first that is answered otherwise ends the run with exit status 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.gateway.by_schema import ask_by_schema  # noqa: E402
from benchmarks.gateway.processes import gateway_before  # noqa: E402
from benchmarks.generation.served import exported, server_over  # noqa: E402
from benchmarks.generation.written import preamble, table, write_result  # noqa: E402
from export.artefact.stage import export_onnx  # noqa: E402
from serving.engine.settings import EngineSettings  # noqa: E402
from tests.conftest import LANGUAGE_MODEL, TEXT_ENCODER  # noqa: E402
from tests.text_checkpoints import write_language_model, write_text_encoder  # noqa: E402

SHIPPED = ["digits-vit", "dates-transformer", "digits-captioner"]


def main() -> None:
    """Send, print, and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--examples", type=int, default=170, help="valid ones, and as many invalid ones, an operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for <date>-gateway-schema.md and .json; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = asked.scratch or Path(temporary)
        artefacts = {**exported(SHIPPED, scratch / "artefacts"), **written(scratch)}
        with (
            server_over(artefacts, scratch, EngineSettings()) as server,
            gateway_before(server.endpoints.grpc) as (_, port),
        ):
            answered = ask_by_schema(f"http://127.0.0.1:{port}", asked.examples, asked.seed)
    text = report(answered)
    if asked.out is not None:
        write_result(asked.out, "gateway-schema", text, answered)
    sys.stdout.write(text + "\n")


def report(answered: Counter[str]) -> str:
    """Markdown."""
    rows = [[*key.split(), str(count)] for key, count in sorted(answered.items())]
    heads = ["method", "path", "status", "answers"]
    return "\n".join(
        [
            *preamble("Requests by the schema", "benchmarks/gateway_schema.py", sys.argv[1:]),
            f"{answered.total()} requests; every answer was one that the schema allows, none had a status of 5xx.\n",
            table(heads, rows),
        ]
    )


def written(scratch: Path) -> dict[str, Path]:
    """Artefacts of a language model and a text encoder with random weights, name → folder."""
    made = {LANGUAGE_MODEL: write_language_model, TEXT_ENCODER: write_text_encoder}
    for name, write in made.items():
        export_onnx(str(write(scratch / "checkpoints" / name)), scratch / "artefacts" / name)
    return {name: scratch / "artefacts" / name for name in made}


if __name__ == "__main__":
    main()
