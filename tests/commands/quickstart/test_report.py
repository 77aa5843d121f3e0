import dataclasses
import io

from rich.console import Console

from commands.quickstart.answers import Answers
from commands.quickstart.outcome import Outcome
from commands.quickstart.report import print_table


def outcome(served=("1", "2")):
    return Outcome(
        name="digits",
        truths=["1", "2"],
        pytorch=Answers(answers=["1", "2"]),
        process=Answers(answers=["1", "2"], latencies_ms=[1.0, 3.0]),
        served=Answers(answers=list(served), latencies_ms=[2.0, 4.0], first_token_ms=[1.0, 1.5], tokens=12),
    )


def printed(function, *arguments):
    console = Console(file=io.StringIO(), width=120)
    function(console, *arguments)
    return console.file.getvalue()


def test_one_different_answer_is_not_equal():
    assert outcome().equal
    assert not outcome(served=("1", "3")).equal


def test_the_table_shows_accuracy_latency_and_tokens_of_each_way():
    text = printed(print_table, [outcome(served=("1", "3"))])
    assert "2/2 = 100.00%" in text and "1/2 = 50.00%" in text
    served = next(line for line in text.splitlines() if "served, gRPC" in line)
    assert "3.00" in served and "1.25" in served and "2000" in served


def test_without_right_answers_it_counts_those_that_pytorch_gives_too():
    text = printed(print_table, [dataclasses.replace(outcome(served=("1", "3")), truths=None)])
    assert "2/2 as PyTorch" in text and "1/2 as PyTorch" in text
