"""Nodes of every plugin as a builder would meet them, and bugs that registrations could have."""

import torch

HALF = torch.float16
CASES = [
    {
        "plugin": "flash_attention",
        "inputs": [["HALF", [3, 4, 130, 64]], *[["HALF", [3, 2, 300, 64]]] * 2, ["INT32", [3]]],
        "attributes": {"causal": 1},
        "varying": {"0": [0, 2], "1": [0], "2": [0], "3": [0]},
    },
    {
        "plugin": "decode_attention",
        "inputs": [["HALF", [3, 4, 2, 64]], *[["HALF", [3, 2, 200, 64]]] * 2, ["INT32", [3]]],
        "attributes": {"causal": 1, "rows": 4, "splits": 4},
        "varying": {"0": [0, 2]},
    },
    {
        "plugin": "combine_splits",
        "inputs": [["FLOAT", [3, 2, 4, 4, 64]], ["FLOAT", [3, 2, 4, 4]]],
        "attributes": {"heads": 4, "element_type": 10},
        "varying": {"0": [0, 3]},
    },
    {
        "plugin": "decode_append_attention",
        "inputs": [
            ["HALF", [3, 4, 2, 64]],
            *[["HALF", [3, 2, 2, 64]]] * 2,
            *[["HALF", [3, 2, 200, 64]]] * 2,
            ["INT32", [3]],
        ],
        "attributes": {"rows": 4, "splits": 4},
        "varying": {"0": [0, 2]},
    },
    {
        "plugin": "decode_append_rotary_attention",
        "inputs": [
            ["HALF", [3, 4, 2, 64]],
            *[["HALF", [3, 2, 2, 64]]] * 2,
            *[["FLOAT", [3, 1, 2, 32]]] * 2,
            *[["HALF", [3, 2, 200, 64]]] * 2,
            ["INT64", [3]],
        ],
        "attributes": {"rows": 4, "splits": 4},
        "varying": {"0": [0, 2]},
    },
    {
        "plugin": "window_attention",
        "inputs": [*[["HALF", [2, 14, 21, 32]]] * 3, ["HALF", [2, 169]]],
        "attributes": {"window": 7, "shift": 3},
        "varying": {"0": [0]},
    },
    {
        "plugin": "cosine_window_attention",
        "inputs": [*[["HALF", [2, 14, 21, 32]]] * 3, ["HALF", [2, 169]], ["FLOAT", [2]]],
        "attributes": {"window": 7, "shift": 3},
        "varying": {"0": [0]},
    },
    {
        "plugin": "additive_attention",
        "inputs": [["HALF", [5, 33]], ["HALF", [5, 21, 33]], ["HALF", [33]], ["HALF", [5, 21, 50]], ["BOOL", [5, 21]]],
        "attributes": {"longest": 32},
        "varying": {"1": [0, 1]},
    },
]
_COUNTS = '{"queries": count, "capacity": capacity}'
BUGS = {
    "an attribute of another name": ("flash_attention", "flash_attention", "causal: int", "causal_: int", "raised"),
    "an attribute that is not registered": (
        "combine_splits",
        "combine_splits",
        "heads: int, element_type: int) -> trtp.TensorDesc",
        "heads: int, element_type: int = 1) -> trtp.TensorDesc",
        "raised",
    ),
    "an attribute that is read the other way round": (
        "flash_attention",
        "flash_attention",
        "bool(causal)",
        "not causal",
        "ptx",
    ),
    "a window without its shift": (
        "window_attention",
        "window_attention",
        "window, shift, cosine, None",
        "window, 0, cosine, None",
        "ptx",
    ),
    "a shape that forgets the groups": (
        "combine_splits",
        "combine_splits",
        "rows * groups // heads",
        "rows",
        "shapes",
    ),
    "parts for each head and not for each group": (
        "decode_attention",
        "decode_attention",
        "heads * count // groups)",
        "heads * count)",
        "shapes",
    ),
    "a result of another type": (
        "decode_attention",
        "decode_attention",
        "trt.DataType.FLOAT",
        "queries.dtype",
        "types",
    ),
    "a grid over the cache instead of the queries": (
        "flash_attention",
        "flash_attention",
        "grid(kernel, batch, count)",
        "grid(kernel, batch, capacity)",
        "grid",
    ),
    "a grid without the splits": (
        "decode_attention",
        "decode_attention",
        "decode_attention.grid(kernel, queries.shape_expr[0])",
        "decode_attention.grid(kernel, queries.shape_expr[0])[:1]",
        "grid",
    ),
    "numbers in each other's place": (
        "flash_attention",
        "flash_attention",
        _COUNTS,
        '{"queries": capacity, "capacity": count}',
        "extra",
    ),
    "numbers in another order": (
        "flash_attention",
        "flash_attention",
        _COUNTS,
        '{"capacity": capacity, "queries": count}',
        "raised",
    ),
    "inputs in another order": (
        "decode_attention",
        "decode_attention",
        "    keys: trtp.TensorDesc,\n    values: trtp.TensorDesc,",
        "    values: trtp.TensorDesc,\n    keys: trtp.TensorDesc,",
        "schema",
    ),
    "caches at each other's address": (
        "decode_append_attention",
        "decode_append_attention",
        "past_keys.aliased(), past_values.aliased()",
        "past_values.aliased(), past_keys.aliased()",
        "aliases",
    ),
    "a cache that is no alias": (
        "decode_append_attention",
        "decode_append_rotary_attention",
        "past_keys.aliased(), ",
        "past_keys.like(), ",
        "aliases",
    ),
    "a block of one warp": ("embedding", "flash_attention", "block_x=made.threads", "block_x=32", "block"),
    "no shared memory": ("embedding", "flash_attention", "shared_mem=made.shared_bytes", "shared_mem=0", "shared"),
}
"""Bug → module, plugin, the line as it is and as it is planted, and where it shows."""
TARGET = "sm_90"
TYPES = {"HALF": torch.float16, "FLOAT": torch.float32, "INT32": torch.int32, "INT64": torch.int64, "BOOL": torch.bool}
KINDS = {dtype: kind for kind, dtype in TYPES.items()}
