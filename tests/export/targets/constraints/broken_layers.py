"""Constraints on other layers: for each a graph that keeps it and one that breaks it, and where."""

from __future__ import annotations

from tests.export.targets.constraints.graph_texts import (
    AXES,
    FIXED,
    FLOAT,
    IMAGE,
    QUERY,
    Case,
    append,
    branches,
    flash,
    graph,
    loop,
    lstm,
    resize,
    unary,
)

CASES = {
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
    "recurrent-type": Case("y (GRU)", lstm("", "GRU"), lstm("", "GRU", "float16")),
    "recurrent-layout": Case("y (GRU)", lstm("", "GRU"), lstm(", layout = 1", "GRU")),
    "recurrent-activations": Case(
        "y (RNN)",
        lstm(', direction = "bidirectional", activations = ["Tanh", "Tanh"]', "RNN"),
        lstm(', direction = "bidirectional", activations = ["Tanh", "Relu"]', "RNN"),
    ),
    "recurrent-lengths": Case(
        "y (GRU)",
        lstm("", "GRU"),
        lstm("", "GRU").replace("[1,12,4] r", "[1,12,4] r, int32[B] n").replace("w, r)", "w, r, , n)"),
        target="openvino-cpu",
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
    "plugin-alias": Case("parts (decode_append_attention)", append(), append(past="other")),
    "plugin-node": Case("y (flash_attention)", *(flash(aot) for aot in (1, 0))),
}
