"""The recurrent encoder-decoder from its formulas, one row and one position at a time, in NumPy."""

import numpy as np

from tests.models.layers.recurrent_by_loops import direction_by_loops, step


def translate_by_loops(config, weights, source_ids, target_ids):
    """Logits ``[T, V]`` and alignment ``[T, L]`` of one row: a source without padding, a target that is given."""
    annotations, last = encode(config, weights, source_ids)
    states = first_states(weights, last)
    fixed = np.concatenate([direction[0] for direction in last])
    logits, alignments = [], []
    for token in target_ids:
        aligned = alignment(weights, states[0], annotations) if config.attention == "additive" else None
        context = fixed if aligned is None else sum(w * h for w, h in zip(aligned, annotations, strict=True))
        embedded = weights["target_embedding.weight"][token]
        states = step(config.cell, np.concatenate([embedded, context]), states, cells(weights, "decoder"))
        logits.append(scores(config, weights, states[0], embedded, context))
        alignments.append(aligned)
    return np.stack(logits), alignments


def encode(config, weights, source_ids):
    """Annotations ``[L, C]``, and for each direction its last states."""
    row = np.stack([weights["source_embedding.weight"][token] for token in source_ids])
    zeros = [np.zeros(config.hidden_width)] * (2 if config.cell == "lstm" else 1)
    forward, last = direction_by_loops(config.cell, row, zeros, cells(weights, "encoder"))
    if not config.bidirectional:
        return forward, [last]
    backward, ending = direction_by_loops(config.cell, row[::-1], zeros, cells(weights, "encoder", "_reverse"))
    return np.concatenate([forward, backward[::-1]], axis=1), [last, ending]


def first_states(weights, last):
    """tanh(W_s h), and for the LSTM W_m m, of the last direction."""
    made = [
        weights[f"first_states.{n}.weight"] @ state + weights[f"first_states.{n}.bias"]
        for n, state in enumerate(last[-1])
    ]
    return [np.tanh(made[0]), *made[1:]]


def alignment(weights, state, annotations):
    """softmax of vᵀ tanh(W s + U h_j)."""
    query, key, score = (weights[f"attention.{part}.weight"] for part in ("query", "key", "score"))
    powers = np.array([np.exp(score[0] @ np.tanh(query @ state + key @ h)) for h in annotations])
    return powers / powers.sum()


def scores(config, weights, state, embedded, context):
    """The plain output layer, or the maxout one."""
    if config.maxout_width is None:
        return weights["output.weight"] @ state + weights["output.bias"]
    known = np.concatenate([state, embedded, context])
    before = weights["output.hidden.weight"] @ known + weights["output.hidden.bias"]
    units = np.maximum(before[0::2], before[1::2])
    return weights["output.output.weight"] @ units + weights["output.output.bias"]


def cells(weights, part, suffix=""):
    """W, R, b and d of one direction."""
    return [weights[f"{part}.cells.{name}_l0{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
