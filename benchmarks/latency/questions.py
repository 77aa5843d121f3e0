"""Questions whose right answers are known, for the scenarios beside this file: held-out data of the shipped models.

    python benchmarks/latency/questions.py --server 127.0.0.1:8001

Those that a model gets wrong by itself are left out, for a wrong answer under load shall mean that the load made it so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from clients.load.record import Outcome  # noqa: E402
from clients.load.run import run_load  # noqa: E402
from clients.load.scenario import Expect, Inputs, Scenario, Target, Workload  # noqa: E402
from models.train.caption_data import held_out_pairs  # noqa: E402
from models.train.date_data import held_out as held_out_dates  # noqa: E402
from models.train.digit_data import held_out as held_out_digits  # noqa: E402
from models.train.digit_task import DETAILS  # noqa: E402

PLACE = Path(__file__).parent / "questions"
NUMBER = 40
MODELS = {
    "digits": ("digits-vit", "digits-swin"),
    "captions": ("digits-captioner",),
    "dates": ("dates-transformer", "dates-gru"),
}
Question = dict[str, Any]


def main() -> None:
    """Write a file for each kind of question."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--server", default="127.0.0.1:8001", help="a Triton over the shipped models")
    server = parser.parse_args().server
    PLACE.mkdir(exist_ok=True)
    for name, questions in held_out().items():
        for model in MODELS[name]:
            questions = asyncio.run(answered_rightly(model, questions, server))
        path = PLACE / f"{name}.jsonl"
        path.write_text(lines(questions[:NUMBER]), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}: {len(questions)} of which {MODELS[name]} answer rightly\n")


def held_out() -> dict[str, list[Question]]:
    """More questions than are needed, with the right answers."""
    labels = DETAILS["labels"]
    digits, truths = held_out_digits()
    pairs, captions = held_out_pairs(2 * NUMBER)
    return {
        "digits": [
            {"pixels": image.tolist(), "answer": labels[truth]}
            for image, truth in zip(digits[: 2 * NUMBER], truths.tolist()[: 2 * NUMBER], strict=True)
        ],
        "captions": [
            {"pixels": image.tolist(), "answer": caption} for image, caption in zip(pairs, captions, strict=True)
        ],
        "dates": [{"text": text, "answer": answer} for text, answer in held_out_dates(2 * NUMBER)],
    }


async def answered_rightly(model: str, questions: list[Question], server: str) -> list[Question]:
    """Those that a served model answers rightly, asked one after the other."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(lines(questions))
        file.flush()
        inputs = Inputs(kind="files", files=(file.name,))
        workload = Workload(name=model, model=model, inputs=inputs, expect=Expect(kind="example"))
        scenario = Scenario(workloads=(workload,), target=Target(address=server), requests=len(questions))
        found = await run_load(scenario)
    return [one for one, record in zip(questions, found.records, strict=True) if record.outcome is Outcome.OK]


def lines(questions: list[Question]) -> str:
    """A JSON object a line."""
    return "".join(f"{json.dumps(question)}\n" for question in questions)


if __name__ == "__main__":
    main()
