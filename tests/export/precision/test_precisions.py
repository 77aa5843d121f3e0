import pytest

from attendant.errors import ConfigError, InputError
from export.precision.precisions import (
    NAMES,
    PRECISIONS,
    Precision,
    describe_precisions,
    precision_named,
    require_task,
    signatures_in,
)
from export.precision.rewriting import PASSES
from models.checkpoints.resolve import checkpoint_named

HALF = Precision(
    name="fp32",
    summary="half",
    roundoff=2.0**-11,
    memory="float16",
    tasks=frozenset({"translate"}),
    budget=PRECISIONS["fp16"].budget,
)


def test_the_registry_holds_just_the_names_of_the_command_line():
    assert list(PRECISIONS) == list(NAMES)
    assert all(f"{one.name}: {one.summary}" in describe_precisions() for one in PRECISIONS.values())


def test_every_precision_has_a_runtime_a_size_and_passes():
    for one in PRECISIONS.values():
        assert one.runtimes and set(one.runtimes) <= {"onnxruntime", "openvino"}
        assert 0 < one.bytes_per_weight <= 4
    assert [one.name for one in PRECISIONS.values() if not one.ort_cpu] == ["bf16"]
    assert PASSES.keys() == PRECISIONS.keys()


def test_a_precision_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ConfigError, match=r"one of \['fp32'.*found 'fp7'; correct --precision"):
        precision_named("fp7")


def test_a_precision_for_other_tasks_is_refused():
    require_task(HALF, "translate")
    with pytest.raises(InputError, match="precision fp32 is for models that translate; this one can classify"):
        require_task(HALF, "classify")


@pytest.mark.parametrize("preset", ["transformer-tiny", "gru-seq2seq-tiny", "llama-tiny", "vit-tiny"])
def test_what_graphs_remember_or_hand_on_has_the_precisions_type_and_nothing_else_has(preset):
    before = [graph.signature for graph in checkpoint_named(preset).graphs()]
    after = signatures_in(HALF, before)
    changed = {
        old.name
        for one, other in zip(before, after, strict=True)
        for old, new in zip((*one.inputs, *one.outputs), (*other.inputs, *other.outputs), strict=True)
        if old != new
    }
    caches = {name for one in before for pair in one.aliases.items() for name in pair}
    handed = {spec.name for spec in before[0].outputs} if len(before) > 1 else set()
    assert changed == caches | handed
    assert {spec.dtype for one in after for spec in (*one.inputs, *one.outputs) if spec.name in changed} <= {"float16"}


def test_float32_leaves_signatures_as_they_are():
    before = tuple(graph.signature for graph in checkpoint_named("transformer-tiny").graphs())
    assert signatures_in(PRECISIONS["fp32"], before) == before
