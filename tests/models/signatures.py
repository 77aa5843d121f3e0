"""Random graph signatures for property tests."""

from hypothesis import strategies as st

from attendant.signature import Axis, GraphSignature, TensorSpec

NAMES = st.text(min_size=1, max_size=8)
AXES = st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["batch", "steps", "source"])), max_size=4).map(tuple)
SIZES = st.lists(st.integers(1, 99), min_size=3, max_size=3).map(
    lambda sizes: Axis(**dict(zip(("min", "opt", "max"), sorted(sizes), strict=True)))
)
DTYPES = st.sampled_from(["bool", "int64", "uint8", "float16", "float32", "string"])


@st.composite
def signatures(draw) -> GraphSignature:
    """Some inputs, some outputs, and for some inputs an output that shares their buffer."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    specs = [TensorSpec(name=name, dtype=draw(DTYPES), axes=draw(AXES)) for name in names]
    inputs = specs[: draw(st.integers(0, len(specs)))]
    outputs = [spec for spec in specs if spec not in inputs]
    shared = [spec for spec in inputs if draw(st.booleans())]
    doubles = [TensorSpec(name=f"{spec.name}_out", dtype=spec.dtype, axes=spec.axes) for spec in shared]
    aliases = {double.name: spec.name for double, spec in zip(doubles, shared, strict=True)}
    taken = {double.name for double in doubles}
    return GraphSignature(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)),
        inputs=tuple(inputs),
        outputs=(*(spec for spec in outputs if spec.name not in taken), *doubles),
        aliases=aliases,
        axes=draw(st.dictionaries(NAMES, SIZES, max_size=3)),
    )
