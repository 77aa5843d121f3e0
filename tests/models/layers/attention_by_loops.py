"""Attention from its formula, one query at a time, in NumPy."""

import numpy as np


def attention_by_loops(q_BHSD, k_BHTD, v_BHTD, mask_BHST, bias_BHST=None):
    batches, heads, queries, size = q_BHSD.shape
    out = np.zeros_like(q_BHSD)
    for b, h, s in np.ndindex(batches, heads, queries):
        seen = [t for t in range(k_BHTD.shape[2]) if mask_BHST[b, h, s, t]]
        added = np.zeros(len(k_BHTD[b, h])) if bias_BHST is None else bias_BHST[b, h, s]
        weights = [np.exp(sum(q_BHSD[b, h, s] * k_BHTD[b, h, t]) / size**0.5 + added[t]) for t in seen]
        for weight, t in zip(weights, seen, strict=True):
            out[b, h, s] += weight / sum(weights) * v_BHTD[b, h, t]
    return out
