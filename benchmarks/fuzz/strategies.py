"""Inputs that are nearly right: a valid one with a few of its parts exchanged for what programs stumble over."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

DEEP = 5_000
LONG = 20_000

NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**31) - 1, -(2**63), 10**40]),
    st.floats(allow_nan=True, allow_infinity=True),
)
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "",
            " ",
            "\0",
            "\ud800",
            "\udfff\ud800",
            "a\ud83d",
            "\u202e",
            "😀" * 9,
            "../../x",
            "%s%n",
            "<|endoftext|>",
            "\n" * 99,
        ]
    ),
    st.sampled_from(["a" * LONG, "é" * LONG, "word " * (LONG // 5), "\ud800" * 50]),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)
"""Anything that JSON can hold, and a little more."""


class Raw(str):
    """JSON as it stands, which Python's own writer would not write."""

    __slots__ = ()


RAW = st.sampled_from(
    [
        Raw("[" * DEEP + "]" * DEEP),
        Raw('{"a":' * DEEP + "1" + "}" * DEEP),
        Raw("[" * 900 + "]" * 900),
        Raw("1" * 5000),
        Raw("1e999"),
        Raw("-1e999"),
        Raw("NaN"),
        Raw('"\\ud800"'),
        Raw('"\\u0000"'),
        Raw("[1,"),
        Raw(""),
    ]
)


@st.composite
def changed(draw: st.DrawFn, base: Mapping[str, Any], unknown: Sequence[str] = (), most: int = 3) -> dict[str, Any]:
    """A JSON object with some values exchanged, left out or added, at any depth."""
    value: dict[str, Any] = json.loads(json.dumps(base))
    for _ in range(draw(st.integers(0, most))):
        place: Any = value
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if isinstance(place, dict) and unknown:
                keys += [name for name in unknown if name not in place]
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            held = place.get(key) if isinstance(place, dict) else place[key]
            if isinstance(held, dict | list) and held and draw(st.booleans()):
                place = held
                continue
            if isinstance(place, dict) and draw(st.integers(0, 5)) == 0:
                place.pop(key, None)
            else:
                place[key] = draw(st.one_of(VALUES, VALUES, RAW))
            break
    return value


def write_json(value: Any) -> bytes:
    """JSON with :class:`Raw` parts as they stand; lone surrogates are escaped."""
    parts: list[str] = []

    def mark(one: Any) -> Any:
        if isinstance(one, Raw):
            parts.append(str(one))
            return f"@raw{len(parts) - 1}@"
        if isinstance(one, dict):
            return {str(key): mark(held) for key, held in one.items()}
        return [mark(held) for held in one] if isinstance(one, list) else one

    text = json.dumps(mark(value))
    for number, part in enumerate(parts):
        text = text.replace(f'"@raw{number}@"', part, 1)
    return text.encode()


@st.composite
def damaged(draw: st.DrawFn, base: bytes) -> bytes:
    """Bytes with some exchanged, cut off, left out or repeated."""
    data = bytearray(base)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.integers(0, 5)):
            case 0:
                data[place : place + 1] = bytes([draw(st.integers(0, 255))])
            case 1:
                data[place : place + 4] = draw(st.sampled_from([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"]))
            case 2:
                del data[place:]
            case 3:
                del data[place : place + draw(st.integers(1, 64))]
            case 4:
                part = bytes(data[place : place + draw(st.integers(1, 64))])
                data[place:place] = part * draw(st.integers(1, 4))
            case 5:
                data[place:place] = draw(st.binary(max_size=16))
    return bytes(data)
