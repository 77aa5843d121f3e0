"""Recurrent cells and layers from their formulas, one row and one position at a time, in NumPy."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(cell, x, states, weights):
    """One position of one row: states and weights as ``torch.nn`` lists them, gates i, f, g, o and r, z, n."""
    h, (w, r, b, d) = states[0], weights
    if cell == "rnn":
        return [np.tanh(w @ x + b + r @ h + d)]
    if cell == "lstm":
        i, f, g, o = np.split(w @ x + b + r @ h + d, 4)
        memory = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(memory), memory]
    (x_r, x_z, x_n), (h_r, h_z, h_n) = np.split(w @ x + b, 3), np.split(r @ h + d, 3)
    reset, update = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    return [(1 - update) * np.tanh(x_n + reset * h_n) + update * h]


def direction_by_loops(cell, row_LE, first, weights):
    """The hidden states ``[L, H]`` of one row without padding, and its last states."""
    states, hiddens = list(first), []
    for x in row_LE:
        states = step(cell, x, states, weights)
        hiddens.append(states[0])
    return np.stack(hiddens), states


def recurrent_by_loops(cell, inputs_BSE, lengths, weights, initial=None):
    """A layer of one direction for each four weights; ``initial`` as states of ``[N, B, H]``."""
    directions, width = len(weights) // 4, weights[1].shape[1]
    rows, positions = inputs_BSE.shape[:2]
    count = 2 if cell == "lstm" else 1
    out = np.zeros((rows, positions, directions * width))
    last = [np.zeros((directions, rows, width)) for _ in range(count)]
    for row, length in enumerate(lengths):
        for direction in range(directions if length else 0):
            first = [state[direction, row] for state in initial] if initial else [np.zeros(width)] * count
            order = slice(None) if direction == 0 else slice(None, None, -1)
            read = inputs_BSE[row, :length][order]
            hiddens, states = direction_by_loops(cell, read, first, weights[4 * direction : 4 * direction + 4])
            out[row, :length, direction * width : (direction + 1) * width] = hiddens[order]
            for place, state in enumerate(states):
                last[place][direction, row] = state
    return out, last
