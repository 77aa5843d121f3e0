"""How benchmarks ask peers and count their answers; the peers here are a few lines of Python."""

import time

import pytest

from benchmarks.decode import columns
from benchmarks.harness.rounds import counted_values, quiet_values, show_spread
from benchmarks.peers.comparison import agreement
from benchmarks.peers.processes import PeerError, PeerProcess
from benchmarks.peers.registry import PEERS, Peer, ours
from benchmarks.peers.rounds import Plan, Samples, measure
from benchmarks.peers.shapes import SHAPES

ECHO = """
import time

def load(folder, threads, **options):
    print("what libraries print does not come between answers")
    def run(question):
        time.sleep(0.02)
        return [folder, threads, options, question]
    return run
"""
DIES = """
def load(folder, threads):
    def run(question):
        raise ValueError("no such question")
    return run
"""


@pytest.fixture
def peer(tmp_path):
    def make(source, name="echo", **options):
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        return Peer(name=name, kind="decoder", file=str(path), environment="ours", options=options)

    return make


def plan(rounds):
    requests = {"asked": lambda shape, rng: {"question": int(rng.integers(2**31))}}
    return Plan(requests=requests, rounds=rounds, threads=2, deadline=time.monotonic() + 60, patience_s=0.0)


def measured(tmp_path, peers, rounds, samples):
    for made in ("source", "ours"):
        (tmp_path / made).mkdir(exist_ok=True)
    measure(SHAPES["gpt2"], peers, plan(rounds), samples, tmp_path)


def test_a_peer_gets_its_options_and_is_timed(peer, tmp_path):
    with PeerProcess(peer(ECHO, word="x"), tmp_path, 2, tmp_path / "log") as process:
        sample = process.send({"question": 3})
    assert sample.returned == [str(tmp_path), 2, {"word": "x"}, 3]
    assert sample.seconds >= 0.02


def test_a_peer_that_dies_says_why(peer, tmp_path):
    with (
        PeerProcess(peer(DIES), tmp_path, 2, tmp_path / "log") as process,
        pytest.raises(PeerError, match="no such question"),
    ):
        process.send({"question": 3})


def test_a_peer_that_cannot_load_says_why(peer, tmp_path):
    with pytest.raises(PeerError, match="no such module"):
        PeerProcess(peer("raise ImportError('no such module')"), tmp_path, 2, tmp_path / "log")


def test_every_sample_asks_something_new_and_a_stopped_run_goes_on(peer, tmp_path):
    path, echo = tmp_path / "samples.json", peer(ECHO)
    samples = Samples(path)
    measured(tmp_path, [echo], 1, samples)
    before = samples.values["gpt2"]["echo"]["samples"]["asked"]
    resumed = Samples(path)
    measured(tmp_path, [echo], 2, resumed)
    after = resumed.values["gpt2"]["echo"]["samples"]["asked"]
    assert after[: len(before)] == before
    assert len(after) > len(before)


def test_a_peer_that_fails_is_left_out_and_the_others_are_measured(peer, tmp_path):
    samples = Samples(tmp_path / "samples.json")
    measured(tmp_path, [peer(DIES, "dies"), peer(ECHO)], 1, samples)
    assert "no such question" in samples.values["gpt2"]["dies"]["failed"]
    assert samples.values["gpt2"]["echo"]["samples"]["asked"]


def test_only_quiet_samples_count_where_there_are_two():
    assert quiet_values([[0.5, 0.2], [0.1, 0.0], [0.3, 0.09]]) == [0.1, 0.3]
    assert show_spread([[0.5, 0.2], [0.1, 0.0], [0.3, 0.0]], 1e3) == "200.0 (150.0 … 250.0)"
    assert show_spread([[0.5, 0.2], [0.1, 0.0]], 1e3) == "300.0 (200.0 … 400.0) ?"


def test_samples_count_where_others_left_the_machine_alone():
    assert counted_values([(1.0, 0.5), (2.0, 0.0), (3.0, 0.09)]) == ([2.0, 3.0], "")
    assert counted_values([(1.0, 0.5), (2.0, 0.0), (3.0, 0.4), (4.0, 0.2)]) == ([2.0, 4.0, 3.0], " ?")


def test_a_rate_leaves_the_prompt_out():
    first, rate = columns(8)
    slow, fast = ({"samples": {"batch 8": [[9.0, 0.0, [0.1, *steps]]] * 3}} for steps in ([0.2, 0.3], [0.14, 0.2]))
    assert first.show(slow) == "100.0 (100.0 … 100.0)"
    assert rate.show(slow) == "80 (80 … 80)"
    assert rate.show_ratio(fast, {"slow": slow, "fast": fast}) == "1.00 (fast)"
    assert rate.show_ratio(fast, {"slow": slow}) == "2.00 (slow)"
    slower = {"samples": {"batch 8": [[9.0, 0.5, [0.2, 0.3]]] * 3}}
    assert first.show_ratio(slow, {"slower": slower}) == "2.00 ? (slower)"
    assert first.show_ratio(slow, {}) == ""


def test_answers_are_compared_with_transformers():
    assert agreement({"answer": [[1, 2, 3]]}, {"answer": [[1, 2, 4]]}) == "2 of 3 tokens"
    assert agreement({"answer": [1.0, 2.5]}, {"answer": [1.0, 2.0]}) == "2e-01"


def test_peers_have_different_names_and_products_of_their_own():
    peers = [*PEERS, ours("decoder", ("--precision", "int8"), "auto"), ours("decoder", (), "auto")]
    assert len({(peer.kind, peer.name) for peer in peers}) == len(peers)
    made = {(peer.kind, peer.product): peer.make for peer in peers}
    assert all(made[peer.kind, peer.product] == peer.make for peer in peers)


@pytest.mark.parametrize("kind", ["decoder", "translator"])
def test_our_peer_answers_every_prompt_with_as_many_tokens(kind, request, tmp_path):
    folder = request.getfixturevalue({"decoder": "language_model", "translator": "dates_artefact"}[kind])
    with PeerProcess(ours(kind, (), "auto"), folder, 1, tmp_path / "log") as process:
        sample = process.send({"prompts": [[3, 4, 5], [6, 7, 8]], "new_tokens": 4})
    assert [len(row) for row in sample.returned] == [4, 4]
    assert 0 < sample.steps_s[0] < sample.steps_s[1] < sample.steps_s[2] < sample.steps_s[3] <= sample.seconds
    assert sample.peak_mb > 10


def test_transformers_peer_continues_greedily(tmp_path):
    import transformers

    config = transformers.GPT2Config(vocab_size=20, n_positions=16, n_embd=8, n_layer=1, n_head=1)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "model")
    options = {"precision": "float32", "kind": "decoder"}
    peer = Peer(name="x", kind="decoder", file="transformers_peer.py", environment="ours", options=options)
    with PeerProcess(peer, tmp_path / "model", 1, tmp_path / "log") as process:
        first, second = (process.send({"prompts": [[3, 4, 5]], "new_tokens": 6}) for _ in range(2))
    assert first.returned == second.returned and len(first.returned[0]) == 6
    assert first.steps_s == sorted(first.steps_s) and first.steps_s[-1] <= first.seconds
