"""For each restriction a graph that keeps it and one that breaks it, with the node that does.

The texts are of ONNX's own syntax (onnx.parser). Shapes: B batch, S and T positions, 4 heads of 8, a capacity of 16.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOAT, HALF = "float[B,S,8]", "float16[B,S,8]"
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


def attention(body="y = Attention(q, k, v, m)", query=QUERY, key=KEY, mask="bool[B,1,S,T]", more=""):
    return graph(f"{query} q, {key} k, {key} v, {mask} m{more}", f"{QUERY} y", body)


def update(body="out = TensorScatter <axis = -2> (cache, new, at)", cache=CACHE, new=NEW, at="int64[B] at", out=CACHE):
    return graph(f"{cache} cache, {new} new, {at}, {CACHE} other", f"{out} out", body)


def unary(operator, attributes="", kind=FLOAT, out=None):
    return graph(f"{kind} x", f"{out or kind} y", f"y = {operator} {attributes} (x)")


def lstm(attributes, operator="LSTM"):
    gates, ways = {"LSTM": 16, "GRU": 12, "RNN": 4}[operator], 2 if "bidirectional" in attributes else 1
    return graph(
        f"float[S,B,5] x, float[{ways},{gates},5] w, float[{ways},{gates},4] r",
        f"float[S,{ways},B,4] y",
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


def quantized(point="{0}", x="int8[4]", weights=""):
    return graph(
        "float[B,4] a",
        "float[B,4] y",
        "w = DequantizeLinear(x, scale, zero) y = Mul(a, w)",
        weights=f"<{x} x = {{1,2,3,4}}, float scale = {{0.5}}, {x.split('[')[0]} zero = {point}>",
    )


CASES = {
    "opset": Case("opset_import", unary("Relu"), graph(f"{FLOAT} x", f"{FLOAT} y", "y = Relu(x)", opset=25)),
    "ir-version": Case(
        "ir_version", unary("Relu"), graph(f"{FLOAT} x", f"{FLOAT} y", "y = Relu(x)", ir=14), target="ort-cuda"
    ),
    "domain": Case(
        "y (FusedMatMul)",
        unary("Relu"),
        graph("float[4,4] x", "float[4,4] y", "y = com.microsoft.FusedMatMul(x, x)", domains=', "com.microsoft" : 1'),
    ),
    "operator": Case("y (Det)", unary("Abs", kind="float[4,4]"), unary("Det", kind="float[4,4]", out="float")),
    "element-type": Case("y (Clip)", unary("Clip"), unary("Clip", kind="int64[B,S]")),
    "input-output-type": Case("x", unary("Neg"), graph("double[B] x", "float[B] y", "y = Cast <to = 1> (x)")),
    "quantized-type": Case(
        "y (Transpose)",
        unary("Transpose", "<perm = [0,2,1]>"),
        unary("Transpose", "<perm = [0,2,1]>", kind="int8[B,S,8]"),
    ),
    "zero-point": Case("w (DequantizeLinear)", quantized(), quantized(point="{3}")),
    "constant-value": Case(
        "c (Constant)",
        graph(f"{FLOAT} x", f"{FLOAT} y", "c = Constant <value_float = 2.0> () y = Mul(x, c)"),
        graph(f"{FLOAT} x", f"{FLOAT} y, string c", 'c = Constant <value_string = "a"> () y = Relu(x)'),
    ),
    "attention-rank": Case(
        "y (Attention)",
        attention(),
        graph(
            "float[B,S,32] q, float[B,T,32] k, float[B,T,32] v",
            "float[B,S,32] y",
            "y = Attention <q_num_heads = 4, kv_num_heads = 4> (q, k, v)",
        ),
    ),
    "attention-past": Case(
        "y (Attention)",
        attention(),
        attention("y, pk, pv = Attention(q, k, v, , past, past)", more=", float[B,4,P,8] past"),
    ),
    "attention-lengths": Case(
        "y (Attention)", attention(), attention("y = Attention(q, k, v, , , , n)", more=", int64[B] n")
    ),
    "attention-outputs": Case("y (Attention)", attention(), attention("y, , , scores = Attention(q, k, v)")),
    "attention-softcap": Case(
        "y (Attention)",
        attention("y = Attention <softcap = 0.0> (q, k, v)"),
        attention("y = Attention <softcap = 5.0> (q, k, v)"),
    ),
    "attention-score-mode": Case(
        "y (Attention)",
        attention("y = Attention <qk_matmul_output_mode = 0> (q, k, v)"),
        attention("y = Attention <qk_matmul_output_mode = 2> (q, k, v)"),
    ),
    "attention-causal-lengths": Case(
        "y (Attention)",
        attention("y = Attention <is_causal = 1> (q, k, v)", key=QUERY),
        attention("y = Attention <is_causal = 1> (q, k, v)"),
    ),
    "attention-causal-mask": Case(
        "y (Attention)", attention(), attention("y = Attention <is_causal = 1> (q, k, v, m)", key=QUERY)
    ),
    "attention-heads": Case("y (Attention)", attention(), attention(query="float[B,H,S,8]")),
    "attention-in-if": Case("y1 (Attention)", branches(), branches(then="y1 = Attention(q, k, v)")),
    "attention-mask-query-axis": Case("y (Attention)", attention(), attention(mask="bool[B,1,1,T]"), target="ort-cpu"),
    "attention-head-size-nonpad": Case(
        "y (Attention)",
        attention(),
        attention(
            "y = Attention(q, k, v, , , , n)", query="float[B,4,S,512]", key="float[B,4,T,512]", more=", int64[B] n"
        ).replace(f"{QUERY} y", "float[B,4,S,512] y"),
        target="ort-cuda",
    ),
    "cache-rank": Case(
        "out (TensorScatter)",
        update(),
        update(
            "out = TensorScatter <axis = -2> (cache, new, at)", "float[B,16,8]", "float[B,S,8]", out="float[B,16,8]"
        ),
    ),
    "cache-axis": Case("out (TensorScatter)", update(), update("out = TensorScatter <axis = 2> (cache, new, at)")),
    "cache-mode": Case(
        "out (TensorScatter)",
        update('out = TensorScatter <axis = -2, mode = "linear"> (cache, new, at)'),
        update('out = TensorScatter <axis = -2, mode = "circular"> (cache, new, at)'),
    ),
    "cache-indices": Case("out (TensorScatter)", update(), update(at="int16[B] at")),
    "cache-input": Case(
        "out (TensorScatter)",
        update(),
        update("copy = Neg(cache) out = TensorScatter <axis = -2> (copy, new, at)"),
    ),
    "cache-output": Case(
        "inner (TensorScatter)",
        update(),
        update("inner = TensorScatter <axis = -2> (cache, new, at) out = Neg(inner)"),
    ),
    "cache-pair": Case("out (TensorScatter)", update(), update("out = TensorScatter <axis = -2> (other, new, at)")),
    "cache-capacity": Case("out (TensorScatter)", update(), update(cache="float[B,4,M,8]", out="float[B,4,M,8]")),
    "cache-type": Case(
        "out (TensorScatter)",
        update(),
        update(cache="int32[B,4,16,8]", new="int32[B,4,S,8]", out="int32[B,4,16,8]"),
    ),
    "rotary-positions": Case(
        "y (RotaryEmbedding)",
        *(
            graph(
                f"{QUERY} x, float[9,4] cos, float[9,4] sin, {kind}[B,S] at",
                f"{QUERY} y",
                "y = RotaryEmbedding(x, cos, sin, at)",
            )
            for kind in ("int64", "int32")
        ),
    ),
    "layer-norm-outputs": Case(
        "y (LayerNormalization)",
        graph(f"{FLOAT} x, float[8] w", f"{FLOAT} y", "y = LayerNormalization(x, w)"),
        graph(f"{FLOAT} x, float[8] w", f"{FLOAT} y, float[B,S,1] m", "y, m = LayerNormalization(x, w)"),
    ),
    "recurrent-layout": Case("y (GRU)", lstm("", "GRU"), lstm(", layout = 1", "GRU")),
    "recurrent-activations": Case(
        "y (RNN)",
        lstm(', direction = "bidirectional", activations = ["Tanh", "Tanh"]', "RNN"),
        lstm(', direction = "bidirectional", activations = ["Tanh", "Relu"]', "RNN"),
    ),
    "lstm-input-forget": Case("y (LSTM)", lstm(""), lstm(", input_forget = 1")),
    "if-branches": Case(
        "y (If)", branches(), branches(other="float y2", otherwise="y2 = ReduceSum <keepdims = 0> (q)")
    ),
    "loop-scan-length": Case("y (Loop)", loop(FIXED), loop()),
    "resize-antialias": Case("y (Resize)", resize("antialias = 0"), resize('antialias = 1, mode = "linear"')),
    "resize-transformation": Case(
        "y (Resize)",
        resize('coordinate_transformation_mode = "asymmetric"'),
        resize('coordinate_transformation_mode = "half_pixel_symmetric"'),
    ),
    "resize-mode": Case("y (Resize)", resize('mode = "linear"'), resize('mode = "cubic"')),
    "resize-nearest": Case("y (Resize)", resize('nearest_mode = "floor"'), resize('nearest_mode = "simple"')),
    "resize-aspect": Case(
        "y (Resize)",
        resize('keep_aspect_ratio_policy = "stretch"'),
        resize('keep_aspect_ratio_policy = "not_larger"'),
    ),
    "pool-rank": Case(
        "y (MaxPool)",
        unary("MaxPool", "<kernel_shape = [2, 2]>", IMAGE, "float[B,3,15,15]"),
        unary("MaxPool", "<kernel_shape = [2]>", "float[B,3,16]", "float[B,3,15]"),
    ),
    "pool-dilations": Case(
        "y (MaxPool)",
        unary("MaxPool", "<kernel_shape = [2, 2], dilations = [1, 1]>", IMAGE, "float[B,3,15,15]"),
        unary("MaxPool", "<kernel_shape = [2, 2], dilations = [2, 2]>", IMAGE, "float[B,3,14,14]"),
    ),
    "max-pool-indices": Case(
        "y (MaxPool)",
        unary("MaxPool", "<kernel_shape = [2, 2]>", IMAGE, "float[B,3,15,15]"),
        graph(f"{IMAGE} x", "float[B,3,15,15] y, int64[B,3,15,15] at", "y, at = MaxPool <kernel_shape = [2, 2]> (x)"),
    ),
    "reduce-axes": Case(
        "y (ReduceMean)",
        graph(f"{FLOAT} x", "float[B,1,8] y", "y = ReduceMean(x, axes)", weights=AXES),
        graph(f"{FLOAT} x, int64[1] axes", "float[B,1,8] y", "y = ReduceMean(x, axes)"),
    ),
    "squeeze-axes": Case(
        "y (Unsqueeze)",
        graph(f"{FLOAT} x", "float[B,1,S,8] y", "y = Unsqueeze(x, axes)", weights=AXES),
        graph(f"{FLOAT} x, int64[1] axes", "float[B,1,S,8] y", "y = Unsqueeze(x, axes)"),
    ),
    "cumsum-axis": Case(
        "y (CumSum)",
        graph(f"{FLOAT} x", f"{FLOAT} y", "y = CumSum(x, axis)", weights="<int64 axis = {1}>"),
        graph(f"{FLOAT} x, int64 axis", f"{FLOAT} y", "y = CumSum(x, axis)"),
    ),
    "one-hot-depth": Case(
        "y (OneHot)",
        graph("int64[B] x, float[2] v", "float[B,9] y", "y = OneHot(x, depth, v)", weights="<int64 depth = {9}>"),
        graph("int64[B] x, int64 depth, float[2] v", "float[B,D] y", "y = OneHot(x, depth, v)"),
    ),
    "dropout-training": Case(
        "y (Dropout)",
        unary("Dropout"),
        graph(f"{FLOAT} x", f"{FLOAT} y", "y = Dropout(x, p, on)", weights="<float p = {0.5}, bool on = {1}>"),
    ),
    "top-k-sorted": Case(
        "y (TopK)",
        *(
            graph(
                "float[B,99] x", "float[B,5] y", f"y, at = TopK <sorted = {value}> (x, k)", weights="<int64[1] k = {5}>"
            )
            for value in (1, 0)
        ),
    ),
    "top-k-count": Case(
        "y (TopK)",
        *(
            graph("float[B,9999] x", f"float[B,{k}] y", "y, at = TopK(x, k)", weights=f"<int64[1] k = {{{k}}}>")
            for k in (3839, 3840)
        ),
    ),
    "scatter-reduction": Case(
        "y (ScatterND)",
        *(
            graph(
                "float[9] x, int64[2,1] at, float[2] new",
                "float[9] y",
                f'y = ScatterND <reduction = "{way}"> (x, at, new)',
            )
            for way in ("none", "add")
        ),
    ),
    "grid-sample-rank": Case(
        "y (GridSample)",
        graph(f"{IMAGE} x, float[B,4,4,2] at", "float[B,3,4,4] y", "y = GridSample(x, at)"),
        graph("float[B,3,16] x, float[B,4,1] at", "float[B,3,4] y", "y = GridSample(x, at)"),
    ),
    "eye-like-shape": Case("y (EyeLike)", unary("EyeLike", kind="float[4,4]"), unary("EyeLike", kind="float[N,N]")),
    "hardmax-axis": Case("y (Hardmax)", unary("Hardmax", kind="float[B,9]"), unary("Hardmax", kind="float[B,N]")),
    "session": Case(
        "second",
        unary("Relu"),
        graph("bfloat16[B] x", "bfloat16[B] y", "[first] z = Identity(x) [second] y = Relu(z)"),
        target="ort-cpu",
    ),
}
