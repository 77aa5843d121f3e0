"""Graphs as texts of ONNX's own syntax (onnx.parser).

Shapes: B batch, S and T positions, 4 heads of 8, a capacity of 16.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

FLOAT = "float[B,S,8]"
QUERY, KEY = "float[B,4,S,8]", "float[B,4,T,8]"
CACHE, NEW = "float[B,4,16,8]", "float[B,4,S,8]"
IMAGE = "float[B,3,16,16]"


@dataclass(frozen=True)
class Case:
    """A pair of graphs; ``at`` is how the broken one's node is called."""

    at: str
    sound: str
    broken: str
    target: str = "tensorrt"


def graph(inputs, outputs, body, *, opset=24, ir=10, domains="", weights=""):
    """The text of a model."""
    imports = f'["" : {opset}{domains}]'
    return f"<ir_version: {ir}, opset_import: {imports}> g ({inputs}) => ({outputs}) {weights} {{ {body} }}"


READ = "scale = 1.0, TRT_decomposable = 1"
"""What TensorRT's parser wants of every Attention."""
ATTENTION = f"y = Attention <{READ}> (q, k, v, m)"
STANDARD = "y = Attention(q, k, v, m)"


def attention(body=ATTENTION, query=QUERY, key=KEY, mask="bool[B,1,S,T]", more=""):
    return graph(f"{query} q, {key} k, {key} v, {mask} m{more}", f"{QUERY} y", body)


def flash(aot):
    settings = f'causal = 0, plugin_namespace = "attendant", plugin_version = "1", aot = {aot}'
    return graph(
        f"{QUERY} q, {KEY} k, {KEY} v, int32[B] lengths",
        f"{QUERY} y",
        f"y = attendant.flash_attention <{settings}> (q, k, v, lengths)",
        domains=', "attendant" : 1',
    )


def append(past="cache_k", present="out_k"):
    settings = 'rows = 1, splits = 2, plugin_namespace = "attendant", plugin_version = "1", aot = 1'
    inputs = f"q, new, new, {past}, cache_v, start"
    outputs = f"parts, bases, {present}, out_v"
    return graph(
        f"float[B,4,S,8] q, float[B,4,S,8] new, {CACHE} cache_k, {CACHE} cache_v, {CACHE} other, int64[B] start",
        f"float[B,4,2,1,8] parts, {CACHE} out_k, {CACHE} out_v",
        f"{outputs} = attendant.decode_append_attention <{settings}> ({inputs})"
        + (f" out_k = Identity({present})" if present != "out_k" else ""),
        domains=', "attendant" : 1',
    )


def update(body="out = TensorScatter <axis = -2> (cache, new, at)", cache=CACHE, new=NEW, at="int64[B] at", out=CACHE):
    return graph(f"{cache} cache, {new} new, {at}, {CACHE} other", f"{out} out", body)


def unary(operator, attributes="", kind=FLOAT, out=None):
    return graph(f"{kind} x", f"{out or kind} y", f"y = {operator} {attributes} (x)")


def lstm(attributes, operator="LSTM", dtype="float"):
    gates, ways = {"LSTM": 16, "GRU": 12, "RNN": 4}[operator], 2 if "bidirectional" in attributes else 1
    return graph(
        f"{dtype}[S,B,5] x, {dtype}[{ways},{gates},5] w, {dtype}[{ways},{gates},4] r",
        f"{dtype}[S,{ways},B,4] y",
        f"y = {operator} <hidden_size = 4{attributes}> (x, w, r)",
    )


def resize(attributes=""):
    return graph(f"{IMAGE} x", "float[B,3,32,32] y", f"y = Resize <{attributes}> (x, , scales)", weights=SCALES)


SCALES = "<float[4] scales = {1.0, 1.0, 2.0, 2.0}>"
AXES = "<int64[1] axes = {1}>"
BRANCHES = (
    "y = If (c) <then_branch = t () => (float[B,4,S,8] y1) {{ {then} }},"
    " else_branch = e () => ({other}) {{ {otherwise} }}>"
)


def branches(then="y1 = Relu(q)", other="float[B,4,S,8] y2", otherwise="y2 = Neg(q)"):
    body = BRANCHES.format(then=then, other=other, otherwise=otherwise)
    return graph(f"bool c, {QUERY} q, {KEY} k, {KEY} v", f"{QUERY} y", body)


def loop(trips=""):
    inputs = "int64 n, bool go, float[4] x" if not trips else "bool unused, float[4] x"
    body = "y = Loop (n, go) <body = b (int64 i, bool c0) => (bool c1, float[4] s) { c1 = Identity(c0) s = Neg(x) }>"
    return graph(inputs, "float[L,4] y", body, weights=trips)


FIXED = "<int64 n = {3}, bool go = {1}>"


def quantized(point="{0}", x="int8[4]", scale="0.5"):
    return graph(
        "float[B,4] a",
        "float[B,4] y",
        "w = DequantizeLinear(x, scale, zero) y = Mul(a, w)",
        weights=f"<{x} x = {{1,2,3,4}}, float scale = {{{scale}}}, {x.split('[')[0]} zero = {point}>",
    )


def blocks(scales, attributes, *, x="int4[4,2]"):
    """A matrix of integers times scales, of which ``scales`` is the shape."""
    out = f"float{x[x.index('[') :]}"
    numbers, ones = (",".join(["1"] * prod(sizes(shape))) for shape in (x, scales))
    return graph(
        f"{out} a",
        f"{out} y",
        f"w = DequantizeLinear <{attributes}> (x, scale) y = Mul(a, w)",
        weights=f"<{x} x = {{{numbers}}}, {scales} scale = {{{ones}}}>",
    )


TO_FLOAT8 = "QuantizeLinear <output_dtype = 17>"


def rounded(scale):
    """Activations of float16 that are rounded to E4M3 by a scale of some type, as the parser of texts writes it."""
    return graph(
        "float16[B,4] x",
        f"{scale.split()[0]}[B,4] y",
        f"q = {TO_FLOAT8} (x, scale) y = DequantizeLinear(q, scale)",
        weights=f"<{scale}>",
    )


def float8_conv(weight, out, attributes=""):
    """A convolution of images of 16 by 16 with weights in E4M3, of which ``weight`` is the shape."""
    numbers = ",".join(["1"] * prod(sizes(weight)))
    return graph(
        "float[B,16,16,16] x",
        f"float[B,{out}] y",
        f"q = {TO_FLOAT8} (w, scale) r = DequantizeLinear(q, scale) y = Conv {attributes} (x, r)",
        weights=f"<{weight} w = {{{numbers}}}, float scale = {{0.5}}>",
    )


def sizes(shape):
    """The numbers of ``float[2,3]``."""
    return [int(size) for size in shape[:-1].split("[")[1].split(",")]
