"""Constraints on whole graphs, attention and caches: a graph that keeps each, and one that breaks it and where."""

from __future__ import annotations

from tests.export.targets.constraints.graph_texts import (
    FLOAT,
    QUERY,
    READ,
    STANDARD,
    Case,
    attention,
    blocks,
    branches,
    float8_conv,
    graph,
    quantized,
    rounded,
    unary,
    update,
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
    "strong-types": Case(
        "y (Add)",
        graph(f"{FLOAT} x, float16[B,S,8] h", f"{FLOAT} y", "w = Cast <to = 1> (h) y = Add(x, w)"),
        graph(f"{FLOAT} x, float16[B,S,8] h", f"{FLOAT} y", "y = Add(x, h)"),
    ),
    "input-output-type": Case("x", unary("Neg"), graph("double[B] x", "float[B] y", "y = Cast <to = 1> (x)")),
    "quantized-type": Case(
        "y (Transpose)",
        unary("Transpose", "<perm = [0,2,1]>"),
        unary("Transpose", "<perm = [0,2,1]>", kind="int8[B,S,8]"),
    ),
    "zero-point": Case("w (DequantizeLinear)", quantized(), quantized(point="{3}")),
    "activation-scale": Case(
        "y (QuantizeLinear)",
        quantized(),
        graph(
            "float[B,4] x",
            "float[B,4] z",
            "y = QuantizeLinear <axis = 1> (x, scales, zeros) z = DequantizeLinear(y, scale, zero)",
            weights="<float[4] scales = {1,2,3,4}, int8[4] zeros = {0,0,0,0}, float scale = {1.0}, int8 zero = {0}>",
        ),
    ),
    "scale-rank": Case(
        "w (DequantizeLinear)",
        quantized(),
        graph(
            "float[1,2,2] a",
            "float[1,2,2] y",
            "w = DequantizeLinear <axis = 1, block_size = 2> (x, scale, zero) y = Mul(a, w)",
            weights="<int8[1,2,2] x = {1,2,3,4}, float[1,1,2] scale = {0.5,1.0}, int8[1,1,2] zero = {0,0}>",
        ),
    ),
    "scale-sign": Case("w (DequantizeLinear)", quantized(), quantized(scale="-0.5")),
    "scale-type": Case(  # 14336 are the bits of 0.5
        "q (QuantizeLinear)", rounded("float16 scale = {14336}"), rounded("float scale = {0.5}")
    ),
    "dequantize-type": Case(
        "w (DequantizeLinear)",
        quantized(),
        quantized().replace("DequantizeLinear", "DequantizeLinear <output_dtype = 1> "),
    ),
    "float8-convolution": Case(
        "y (Conv)", float8_conv("float[16,16,5,5]", "16,12,12"), float8_conv("float[16,16,6,6]", "16,11,11")
    ),
    "scale-shape": Case(
        "w (DequantizeLinear)",
        blocks("float[2,2]", "axis = 0, block_size = 64", x="int4[128,2]"),
        blocks("float[4,2]", "axis = 0, block_size = 32", x="int4[128,2]"),
    ),
    "even-count": Case(
        "w (DequantizeLinear)",
        blocks("float[1]", "axis = 0"),
        blocks("float[1]", "axis = 0", x="int4[3,1]"),
    ),
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
        attention(f"y = Attention <softcap = 0.0, {READ}> (q, k, v)"),
        attention("y = Attention <softcap = 5.0> (q, k, v)"),
    ),
    "attention-score-mode": Case(
        "y (Attention)",
        attention(f"y = Attention <qk_matmul_output_mode = 0, {READ}> (q, k, v)"),
        attention("y = Attention <qk_matmul_output_mode = 2> (q, k, v)"),
    ),
    "attention-causal-lengths": Case(
        "y (Attention)",
        attention(f"y = Attention <is_causal = 1, {READ}> (q, k, v)", key=QUERY),
        attention("y = Attention <is_causal = 1> (q, k, v)"),
    ),
    "attention-causal-mask": Case(
        "y (Attention)", attention(), attention("y = Attention <is_causal = 1> (q, k, v, m)", key=QUERY)
    ),
    "attention-heads": Case("y (Attention)", attention(), attention(query="float[B,H,S,8]")),
    "attention-in-if": Case("y1 (Attention)", branches(), branches(then="y1 = Attention(q, k, v)")),
    "attention-softmax-precision": Case(
        "y (Attention)", attention(), attention(f"y = Attention <softmax_precision = 1, {READ}> (q, k, v, m)")
    ),
    "attention-scale": Case(
        "y (Attention)", attention(), attention("y = Attention <TRT_decomposable = 1> (q, k, v, m)")
    ),
    "attention-decomposable": Case("y (Attention)", attention(), attention("y = Attention <scale = 1.0> (q, k, v, m)")),
    "attention-mask-axes": Case("y (Attention)", attention(), attention(mask="bool[B,1,1,T]")),
    "attention-mask-query-axis": Case(
        "y (Attention)", attention(STANDARD), attention(STANDARD, mask="bool[B,1,1,T]"), target="ort-cpu"
    ),
    "attention-head-size-nonpad": Case(
        "y (Attention)",
        attention(STANDARD),
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
}
