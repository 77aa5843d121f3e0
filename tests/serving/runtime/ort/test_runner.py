import subprocess
import sys
import textwrap

import numpy as np
import onnx
import pytest
from onnx import helper

from attendant.errors import ArtefactError, InputError
from attendant.manifest import Manifest
from attendant.signature import GraphSignature, TensorSpec
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.runner import OrtRunner


@pytest.fixture(scope="module")
def runners(tiny_translator):
    return create_runners(tiny_translator, Manifest.read(tiny_translator))


@pytest.fixture
def feeds(runners):
    """One step of two rows: token 5 at position 0."""
    source = np.array([[3, 4, 5], [6, 7, 8]])
    mask = np.ones_like(source, dtype=bool)
    crosses = runners["encoder"].run({"source_ids": source, "source_mask": mask})
    decoder = runners["decoder"]
    caches = {name: decoder.allocate(name, {"batch": 2}) for name in decoder.signature.aliases.values()}
    step = {
        "token_ids": np.full((2, 1), 5),
        "start": np.zeros(2, dtype=np.int64),
        "self_mask": np.ones((2, 1, 1, 1), dtype=bool),
        "scored": np.zeros((2, 1), dtype=np.int64),
        "source_mask": mask,
    }
    return {**step, **crosses, **caches}


def test_a_cache_keeps_its_address_and_is_written_in_place(runners, feeds):
    decoder = runners["decoder"]
    before = {name: feeds[name].address for name in decoder.signature.aliases.values()}
    views = {name: feeds[name].numpy() for name in before}
    assert all((view == 0).all() for view in views.values())
    outputs = decoder.run(feeds)
    for output, source in decoder.signature.aliases.items():
        assert outputs[output] is feeds[source]
        assert outputs[output].address == before[source] == views[source].ctypes.data
        assert (views[source][:, :, 0] != 0).any(), "the new position is in the old buffer"
        assert (views[source][:, :, 1:] == 0).all(), "and nothing else is"


def test_a_view_of_a_buffer_outlives_the_buffer(runners):
    view = runners["decoder"].allocate("self_00_key_in", {"batch": 2}).numpy()
    others = [np.full_like(view, 7) for _ in range(50)]  # they take memory that was given back
    assert (view == 0).all(), others[0].dtype


def test_an_aliased_input_must_be_a_buffer(runners, feeds):
    feeds["self_00_key_in"] = feeds["self_00_key_in"].numpy()
    with pytest.raises(InputError, match=r"runner\.allocate"):
        runners["decoder"].run(feeds)


@pytest.mark.parametrize(
    ("name", "array", "found"),
    [
        ("token_ids", np.zeros((2, 1), dtype=np.int32), "int32"),
        ("token_ids", np.zeros((2, 1, 1), dtype=np.int64), r"\[2, 1, 1\]"),
        ("self_mask", np.zeros((2, 2, 1, 1), dtype=bool), r"\[2, 2, 1, 1\]"),
    ],
)
def test_a_tensor_that_the_signature_does_not_admit_is_refused(runners, feeds, name, array, found):
    with pytest.raises(InputError, match=found):
        runners["decoder"].run({**feeds, name: array})


def test_a_source_that_is_too_long_is_refused_by_name_and_bound(runners):
    source = np.ones((1, 13), dtype=np.int64)
    with pytest.raises(InputError, match="at most 12 along axis 'source' of 'source_ids'; found 13;"):
        runners["encoder"].run({"source_ids": source, "source_mask": source > 0})


def test_a_step_of_too_many_tokens_or_behind_too_many_positions_is_refused(runners, feeds):
    with pytest.raises(InputError, match="at most 8 along axis 'steps' of 'token_ids'; found 9;"):
        runners["decoder"].run({**feeds, "token_ids": np.full((2, 9), 5)})
    with pytest.raises(InputError, match="at most 8 along axis 'attended' of 'self_mask'; found 9;"):
        runners["decoder"].run({**feeds, "self_mask": np.ones((2, 1, 1, 9), dtype=bool)})


def test_a_cache_for_too_many_rows_is_refused_before_its_memory_is_taken(runners):
    with pytest.raises(InputError, match="at most 32 along axis 'batch' of 'self_00_key_in'; found 10000000;"):
        runners["decoder"].allocate("self_00_key_in", {"batch": 10_000_000})


def test_missing_and_unknown_inputs_are_named(runners):
    with pytest.raises(InputError, match=r"missing \['source_mask'\], unknown \['mask'\]"):
        runners["encoder"].run({"source_ids": np.zeros((1, 2), dtype=np.int64), "mask": np.ones((1, 2), dtype=bool)})


def test_a_graph_that_is_not_the_signatures_is_refused(tiny_translator):
    manifest = Manifest.read(tiny_translator)
    with pytest.raises(ArtefactError, match="as its manifest says"):
        OrtRunner(tiny_translator / "encoder.onnx", manifest.graph("decoder"))


def test_a_file_that_is_no_graph_is_refused(tiny_translator, tmp_path):
    (tmp_path / "encoder.onnx").write_bytes(b"not a graph")
    with pytest.raises(ArtefactError, match="an ONNX graph at"):
        OrtRunner(tmp_path / "encoder.onnx", Manifest.read(tiny_translator).graph("encoder"))


MEMORY = """
    import re, sys
    from pathlib import Path
    import numpy as np, onnx
    from onnx import TensorProto, helper
    from attendant.signature import GraphSignature, TensorSpec
    from serving.runtime.ort.runner import OrtRunner

    aliased = sys.argv[2] == "aliased"
    axes = ("batch", 8, 65536, 64)
    shape = ["batch", 8, 65536, 64]
    value = lambda name, kind, dims: helper.make_tensor_value_info(name, kind, dims)
    node = helper.make_node("TensorScatter", ["cache", "new", "start"], ["cache_out"], axis=-2, mode="linear")
    inputs = [value("cache", TensorProto.FLOAT, shape), value("new", TensorProto.FLOAT, ["batch", 8, "steps", 64]),
              value("start", TensorProto.INT64, ["batch"])]
    graph = helper.make_graph([node], "g", inputs, [value("cache_out", TensorProto.FLOAT, shape)])
    path = Path(sys.argv[1])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), path)
    spec = lambda name, dtype, axes: TensorSpec(name=name, dtype=dtype, axes=axes)
    signature = GraphSignature(
        name="decoder",
        inputs=(spec("cache", "float32", axes), spec("new", "float32", ("batch", 8, "steps", 64)),
                spec("start", "int64", ("batch",))),
        outputs=(spec("cache_out", "float32", axes),),
        aliases={"cache_out": "cache"} if aliased else {},
    )
    runner = OrtRunner(path, signature)
    cache = runner.allocate("cache", {"batch": 1})
    peak = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
    before = peak()
    for position in range(3):
        runner.run({"cache": cache, "new": np.ones((1, 8, 1, 64), np.float32), "start": np.array([position])})
    print(cache.nbytes, peak() - before, int(cache.numpy()[0, 0, :, 0].sum()))
"""


@pytest.mark.parametrize("mode", ["aliased", "copied"])
def test_a_second_cache_is_allocated_only_where_outputs_are_not_aliased(tmp_path, mode):
    command = [sys.executable, "-c", textwrap.dedent(MEMORY), str(tmp_path / "g.onnx"), mode]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    cache_bytes, grown_bytes, written = map(int, run.stdout.split())
    assert cache_bytes == 8 * 65536 * 64 * 4
    if mode == "aliased":
        assert grown_bytes < cache_bytes / 8
        assert written == 3
    else:
        assert grown_bytes > cache_bytes / 2, "or this test cannot see a copy"
        assert written == 0


def test_the_sessions_of_a_process_share_their_threads(tiny_translator):
    """Else those of an encoder spin on the processors of its decoder's."""
    program = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from attendant.manifest import Manifest
        from serving.runtime.create_runners import create_runners
        from serving.runtime.ort.runner import share_threads

        def count():
            return len(os.listdir("/proc/self/task"))

        share_threads()
        folder = Path(sys.argv[1])
        counts = [count()]
        for threads in (3, 2):
            kept = create_runners(folder, Manifest.read(folder), threads, "onnxruntime")
            counts.append(count())
            assert kept.keys() == {"encoder", "decoder"}
        print(*counts)
        """
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tiny_translator)], check=False, capture_output=True, text=True
    )
    before, shared, after = map(int, ran.stdout.split())
    assert (shared - before, ran.stderr) == (2, ""), "the first three threads are one and two more, for both"
    assert after == shared, "others are content with them"


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64"]
)
def test_every_type_of_a_custom_models_numbers_is_taken_and_returned(tmp_path, dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [helper.make_tensor_value_info(name, kind, ["batch"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", values[:1], values[1:])
    path = tmp_path / "g.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), path)
    x, y = (TensorSpec(name=name, dtype=dtype, axes=("batch",)) for name in ("x", "y"))
    runner = OrtRunner(path, GraphSignature(name="model", inputs=(x,), outputs=(y,)))
    sent = np.array([0, 1, 2**64 - 1] if dtype == "uint64" else [0, 1, 1], dtype)
    found = runner.run({"x": sent})["y"].numpy()
    assert found.dtype == sent.dtype and found.tolist() == sent.tolist()
