"""Graphs with plugins, evaluated: onnx's own evaluator, and for each plugin the plain reference of its kernel."""

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from export.graph.plugin_ops import NAMESPACE
from models.kernels.additive_attention_reference import additive_attention_reference
from models.kernels.decode_attention_reference import combine_splits_reference
from models.kernels.flash_attention_reference import flash_attention_reference, visible_keys
from models.kernels.window_attention_reference import window_attention_reference
from models.layers.rope import Rotation


def evaluated(path, feeds):
    """The outputs of a graph by their names."""
    model = onnx.load(path)
    values = ReferenceEvaluator(model, new_ops=PLUGINS).run(None, feeds)
    return {value.name: array for value, array in zip(model.graph.output, values, strict=True)}


def plugin(name, compute):
    """A class that the evaluator takes for the operator of that name."""

    def run(self, *inputs, plugin_namespace, plugin_version, aot, **attributes):
        assert (plugin_namespace, plugin_version, aot) == (NAMESPACE, "1", 1)
        outputs = compute(*(torch.from_numpy(np.array(array)) for array in inputs), **attributes)
        return tuple(output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,)))

    return type(name, (OpRun,), {"op_domain": NAMESPACE, "_run": run})


def flash(q, k, v, lengths, causal):
    assert lengths.dtype == torch.int32
    return flash_attention_reference(q, k, v, lengths, causal=bool(causal))


def decode(q, k, v, lengths, causal, rows, splits):
    """Every split by itself: a mean, and the logarithm to base 2 of what it was divided by."""
    batch, heads, count, size = q.shape
    groups, capacity = k.shape[1:3]
    share = heads // groups
    assert share * count <= rows
    scores = q @ k.repeat_interleave(share, 1).mT * size**-0.5
    scores = scores.masked_fill(~visible_keys(lengths, count, capacity, bool(causal)), -torch.inf)
    apart = torch.arange(capacity) * splits // capacity
    parts, bases = [], []
    for split in range(splits):
        own = scores.masked_fill(apart != split, -torch.inf)
        total = own.logsumexp(-1)
        weights = (own - total.nan_to_num(neginf=0)[..., None]).exp()
        parts.append((weights @ v.repeat_interleave(share, 1)).reshape(batch, groups, share * count, size))
        bases.append((total / np.log(2)).reshape(batch, groups, share * count))
    return torch.stack(parts, 2).float(), torch.stack(bases, 2).float()


def append(q, new_k, new_v, past_k, past_v, start, rows, splits):
    present = [past.clone() for past in (past_k, past_v)]
    for cache, new in zip(present, (new_k, new_v), strict=True):
        for row, position in enumerate(start.tolist()):
            cache[row, :, position : position + new.shape[2]] = new[row]
    parts, bases = decode(q, *present, (start + q.shape[2]).int(), 1, rows, splits)
    return parts, bases, *present


def append_rotary(q, new_k, new_v, cosines, sines, past_k, past_v, start, rows, splits):
    assert cosines.dtype == sines.dtype == torch.float32 and cosines.shape[1:] == (1, q.shape[2], q.shape[3] // 2)
    turn = Rotation(cosines, sines, "half")
    q, new_k = (turn.apply(x.float()).to(x.dtype) for x in (q, new_k))
    return append(q, new_k, new_v, past_k, past_v, start, rows, splits)


def combine(parts, bases, heads, element_type):
    batch, groups, _, rows, size = parts.shape
    combined = combine_splits_reference(parts, bases).reshape(batch, heads, groups * rows // heads, size)
    return combined.to({1: torch.float32, 10: torch.float16}[element_type])


def additive(query, keys, score, annotations, mask, longest):
    assert keys.shape[1] <= longest
    return additive_attention_reference(query, keys, score, annotations, mask)


def window(q, k, v, table, window, shift):
    return window_attention_reference(q, k, v, table, window, shift)


def cosine_window(q, k, v, table, scales, window, shift):
    return window_attention_reference(q, k, v, table, window, shift, scales)


COMPUTED = {
    "flash_attention": flash,
    "decode_attention": decode,
    "combine_splits": combine,
    "decode_append_attention": append,
    "decode_append_rotary_attention": append_rotary,
    "additive_attention": additive,
    "window_attention": window,
    "cosine_window_attention": cosine_window,
}
PLUGINS = [plugin(name, compute) for name, compute in COMPUTED.items()]
