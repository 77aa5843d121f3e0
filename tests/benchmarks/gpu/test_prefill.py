"""The trial of benchmarks.gpu.prefill on any machine; what it measures here means nothing."""

import json
import sys

from benchmarks.gpu import prefill
from models.presets import PRESETS


def test_a_trial_has_a_row_for_every_variant_and_is_written_down(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["prefill.py", "--quick", "--batches", "2", "--out", str(tmp_path)])
    prefill.main()
    page, found = sorted(tmp_path.iterdir(), key=lambda path: path.suffix == ".json")
    rows = json.loads(found.read_text())["prompts"]
    assert page.read_text() in capsys.readouterr().out
    expected = {(name, 2, tokens) for name in ("torch runner", "library attention") for tokens in (16, 64)}
    assert {(row["variant"], row["batch"], row["tokens"]) for row in rows} == expected
    assert all(row["ms"] > 0 and row["share_of_limit"] > 0 for row in rows)


def test_operations_are_twice_the_weights_for_each_token_and_what_attention_adds():
    llama = PRESETS["tinyllama-1.1b"].config
    weights = 1_100_048_384 - llama.vocabulary_size * llama.width - (2 * llama.layers + 1) * llama.width
    of_layers = weights - llama.vocabulary_size * llama.width
    found = prefill.operations(llama, batch=1, tokens=1)
    scores_and_sums = 2 * 2 * llama.layers * llama.heads * llama.head_size
    assert found == 2 * weights + scores_and_sums
    many = prefill.operations(llama, batch=3, tokens=100) / 3
    assert many == 2 * (weights - of_layers) + 2 * 100 * of_layers + scores_and_sums * 100 * 101 / 2
