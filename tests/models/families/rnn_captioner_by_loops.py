"""The captioners with a CNN and an RNN from their formulas, one image and one word at a time, in NumPy."""

import numpy as np

from tests.models.families.rnn_seq2seq_by_loops import cells
from tests.models.layers.conv_grid_by_loops import grid_by_loops
from tests.models.layers.recurrent_by_loops import sigmoid, step


def caption_by_loops(config, weights, image, target_ids):
    """Logits ``[T, V]`` and for each word the weights ``[L]`` of one image, or none."""
    kernels = [weight for name, weight in weights.items() if name.startswith("grid.")]
    annotations = grid_by_loops(kernels, config.grid.depths, image)
    states = first_states(config, weights, annotations)
    fixed = states[0]
    logits, alignments = [], []
    for token in target_ids:
        aligned = alignment(config, weights, states[0], annotations) if config.attention == "additive" else None
        context = fixed if aligned is None else sum(w * a for w, a in zip(aligned, annotations, strict=True))
        if config.gated:
            context = sigmoid(linear(weights, "gate", states[0])) * context
        embedded = weights["target_embedding.weight"][token]
        states = step(config.cell, np.concatenate([embedded, context]), states, cells(weights, "decoder"))
        logits.append(scores(config, weights, states[0], embedded, context))
        alignments.append(aligned)
    return np.stack(logits), alignments


def linear(weights, name, x):
    """W x + b."""
    return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]


def first_states(config, weights, annotations):
    """tanh(W z + b) for h_0, and for the LSTM's m_0, where z is a layer with ReLU of the mean annotation."""
    mean = sum(annotations) / len(annotations)
    summary = np.maximum(0, linear(weights, "summary.0", mean))
    count = 2 if config.cell == "lstm" else 1
    return [np.tanh(linear(weights, f"first_states.{number}", summary)) for number in range(count)]


def alignment(config, weights, state, annotations):
    """softmax of vᵀ tanh(W s + key(a_l))."""
    powers = []
    for annotation in annotations:
        key = linear(weights, "attention.key.0", annotation)
        for layer in range(1, config.alignment_layers):
            key = np.tanh(linear(weights, f"attention.key.{2 * layer - 1}", key))
        compared = np.tanh(weights["attention.query.weight"] @ state + key)
        powers.append(np.exp(weights["attention.score.weight"][0] @ compared))
    return np.array(powers) / sum(powers)


def scores(config, weights, state, embedded, context):
    """The plain output layer, or L_o tanh(E y + L_h h + L_z c)."""
    if not config.deep_output:
        return linear(weights, "output", state)
    known = embedded + linear(weights, "output.hidden", np.concatenate([state, context]))
    return linear(weights, "output.output", np.tanh(known))
