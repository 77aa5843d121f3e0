"""The two verbs: what they print and write, and how they refuse what they cannot take."""

import json
import os
import re

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper

from attendant.errors import ArtefactError, ConfigError, ExportError, InputError, UnknownNameError
from export.mixed_precision.feeds import feeds_for, table_rows
from export.mixed_precision.page import page
from export.mixed_precision.report import print_outcome
from export.mixed_precision.source import read_source
from tests.export.hostile_graphs import MALFORMED
from tests.export.mixed_precision.small_graphs import CANCELLING, COUNTING, LOOPING, write_convolving, write_graph
from tests.export.mixed_precision.test_half import convert
from tests.run_here import run_here


def precision(path, *flags):
    return run_here("attendant", "export", "precision", path, *flags)


@pytest.fixture
def conv(tmp_path):
    return write_convolving(tmp_path / "conv.onnx")


def test_a_file_and_a_page_are_written_and_what_stays_is_said_with_reasons(tmp_path):
    path, out = write_graph(tmp_path / "cancel.onnx", CANCELLING), tmp_path / "half.onnx"
    done = precision(path, "--to", "fp16", "--out", out, "--report", tmp_path / "half.html")
    assert done.returncode == 0, done.stderr
    assert re.search(r"lifted .* Add .* σ of drift", done.stdout)
    assert re.search(r"half.onnx: \d operators in fp16, \d kept in float32, \d of them by measurement", done.stdout)
    assert "seeds 0 to 1" in done.stdout and [file.name for file in tmp_path.glob(".*")] == []
    text = (tmp_path / "half.html").read_text()
    assert "lifted" in text and "Kept by measurement" in text
    assert not re.search(r"(src|href)=|url\(|@import|http", text)  # it needs nothing but itself
    assert onnx.load(out).opset_import[0].version == 17


def test_names_in_a_file_are_text_on_the_page(tmp_path, capsys):
    model = onnx.load(write_graph(tmp_path / "cancel.onnx", CANCELLING))
    for number, node in enumerate(model.graph.node):
        node.name = f"<script>alert({number})</script>[red]{node.op_type}"
    onnx.save(model, tmp_path / "named.onnx")
    outcome, _ = convert(tmp_path / "named.onnx", "fp16", budget=0.005)
    assert "<script>" not in page(outcome) and "&lt;script&gt;" in page(outcome)
    print_outcome(outcome)
    assert "[red]Add" in capsys.readouterr().out


def test_bisect_names_the_node(tmp_path):
    path = write_graph(tmp_path / "cancel.onnx", CANCELLING)
    done = run_here("attendant", "export", "bisect", path, "--to", "fp16")
    assert done.returncode == 0 and "first drift: node lifted (Add), output lifted" in done.stdout
    done = run_here("attendant", "export", "bisect", path, path, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["culprit"] is None


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_no_onnx_file_is_refused(tmp_path, kind):
    path = tmp_path / "broken.onnx"
    path.write_bytes(MALFORMED[kind])
    with pytest.raises(ArtefactError, match="an ONNX file at"):
        convert(path)


def test_what_cannot_be_read_or_written_is_refused_with_status_2(conv, tmp_path):
    with pytest.raises(InputError, match="an ONNX file; found none at"):
        convert(tmp_path / "none.onnx")
    done = precision(conv, "--to", "fp16", "--out", conv)
    assert (done.returncode, "another file to write" in done.stderr) == (2, True)
    done = precision(conv, "--to", "fp16", "--out", tmp_path / "missing" / "o.onnx")
    assert (done.returncode, "a place to write" in done.stderr) == (2, True)
    done = precision(conv, "--to", "int8", "--narrow-io", "--out", tmp_path / "o.onnx")
    assert (done.returncode, "--narrow-io with fp16 or bf16" in done.stderr) == (2, True)
    done = precision(conv, "--to", "fp16", "--sizes", "height", "--out", tmp_path / "o.onnx")
    assert (done.returncode, "the size of an axis as height=224" in done.stderr) == (2, True)


def test_what_is_read_is_not_written_over_nor_one_output_over_another(conv, tmp_path):
    onnx.save(onnx.load(conv), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="w.bin")
    onnx.save(
        onnx.load(conv), tmp_path / "n.onnx", save_as_external_data=True, size_threshold=0, location="o.onnx.data"
    )
    np.savez(tmp_path / "samples.npz", x=np.ones((2, 2, 6, 6), np.float32))
    (tmp_path / "link").symlink_to("m.onnx")
    out, samples = tmp_path / "o.onnx", tmp_path / "samples.npz"
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for file, flag, flags in [
        ("m.onnx", "--out", ("--out", tmp_path / "w.bin")),
        ("n.onnx", "--out", ("--out", out)),  # whose large weights would stand in o.onnx.data
        ("m.onnx", "--out", ("--out", tmp_path / "link")),
        ("m.onnx", "--out", ("--out", samples, "--calibration", samples)),
        ("m.onnx", "--report", ("--out", tmp_path / "p", "--report", samples, "--calibration", tmp_path)),
        ("m.onnx", "--report", ("--out", tmp_path / "p", "--report", tmp_path / "m.onnx")),
        ("m.onnx", "--report", ("--out", tmp_path / "p", "--report", tmp_path / "p")),
    ]:
        done = precision(tmp_path / file, "--to", "fp16", *flags)
        assert done.returncode == 2 and f"choose another {flag}" in done.stderr, (flags, done.stderr)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    for _ in range(2):  # beside samples, and once more over its own
        done = precision(conv, "--to", "fp16", "--out", out, "--calibration", tmp_path)
        assert done.returncode == 0, done.stderr


def test_numbers_that_make_no_sense_are_refused(conv):
    with pytest.raises(ConfigError, match="at least one sample"):
        convert(conv, samples=0)
    with pytest.raises(UnknownNameError, match="tensorrt"):
        convert(conv, target="tensorr")
    with pytest.raises(ConfigError, match="a positive drift"):
        convert(conv, budget=-1.0)
    with pytest.raises(ExportError, match="in float32 alone"):
        convert(conv, budget=1e-12)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.zeros((1, 2, 6, 6), np.float32)}, r"the inputs \['x'\]"),
        ({"x": np.zeros((1, 2, 6, 5), np.float32)}, r"\[1, 2, 6, 5\]"),
        ({"x": np.zeros((1, 2, 6, 6), np.int64)}, r"int64 \[1, 2, 6, 6\]"),
        ({"x": np.full((1, 2, 6, 6), np.nan, np.float32)}, "found NaN"),
        ({"x": np.array([None])}, "arrays of numbers"),
    ],
)
def test_samples_of_another_graph_are_refused(conv, tmp_path, arrays, message):
    np.savez(tmp_path / "samples.npz", **arrays)
    with pytest.raises(InputError, match=message):
        convert(conv, calibration=tmp_path / "samples.npz")


def test_samples_come_from_files_and_their_first_axis_counts_them(conv, tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    np.save(folder / "a.npy", np.random.default_rng(0).standard_normal((5, 2, 6, 6)))
    np.savez(folder / "b.npz", x=np.ones((2, 2, 6, 6), np.float32))
    outcome, _ = convert(conv, "int8", calibration=folder)
    assert (outcome.samples, outcome.feeds) == (7, "samples")
    with pytest.raises(InputError, match="nothing at"):
        convert(conv, calibration=tmp_path / "nothing")


def test_indices_are_drawn_below_the_rows_of_their_table_and_axes_by_the_sizes_given(tmp_path):
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (int64[batch, tokens] ids, float[batch, tokens, 4] x) => (float[batch, tokens, 4] y)
    { flat = Identity(ids)  rows = Gather(table, flat)  y = Add(rows, x) }
    """
    path = write_graph(tmp_path / "table.onnx", text, table=np.ones((7, 4), np.float32))
    feeds = feeds_for(read_source(path), None, 3, {"tokens": 50})
    ids = [feed["ids"] for feed in feeds.samples]
    assert {one.shape for one in ids} == {(1, 50)} and np.unique(ids).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert feeds.samples[0]["x"].shape == (1, 50, 4)


@pytest.mark.planted
def test_weights_are_taken_from_the_files_own_folder_alone(conv, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" * 10_000)
    inner = tmp_path / "inner"
    inner.mkdir()
    for location in ("../secret", str(secret), "link", "a\0b"):
        model = onnx.load(conv)
        tensor = model.graph.initializer[0]
        onnx.external_data_helper.set_external_data(tensor, location)
        tensor.ClearField("raw_data")
        (inner / "conv.onnx").write_bytes(model.SerializeToString())
        (inner / "link").unlink(missing_ok=True)
        (inner / "link").symlink_to(secret)
        with pytest.raises(ArtefactError, match="in its own folder"):
            convert(inner / "conv.onnx")


def test_weights_beside_a_file_are_read_from_there(conv, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    onnx.save(onnx.load(conv), inner / "conv.onnx", save_as_external_data=True, size_threshold=0, location="weights")
    outcome, model = convert(inner / "conv.onnx")
    assert outcome.nbytes[0] == 2 * outcome.nbytes[1]
    assert all(tensor.data_location == onnx.TensorProto.DEFAULT for tensor in model.graph.initializer)
    (inner / "weights").unlink()
    with pytest.raises(ArtefactError, match="in weights; found no such file"):
        convert(inner / "conv.onnx")


def test_a_graph_that_never_ends_is_ended(tmp_path):
    model = onnx.load(write_graph(tmp_path / "loop.onnx", LOOPING))
    count = next(tensor for tensor in model.graph.initializer if tensor.name == "count")
    count.CopyFrom(onnx.numpy_helper.from_array(np.array(2**60), "count"))
    del model.graph.node[0].output[1:], model.graph.output[1:], model.graph.node[0].attribute[0].g.output[2:]
    onnx.save(model, tmp_path / "loop.onnx")
    done = precision(tmp_path / "loop.onnx", "--to", "fp16", "--out", tmp_path / "o.onnx", "--timeout-s", "3")
    assert done.returncode == 2 and "within 3 s" in done.stderr, done.stderr
    assert list(tmp_path.glob(".o.onnx*")) == []


def test_a_loop_that_never_ends_once_it_is_rounded_is_ended(tmp_path):
    path = write_graph(tmp_path / "counting.onnx", COUNTING)  # in fp16, 2048 + 1 is 2048
    done = precision(path, "--to", "fp16", "--out", tmp_path / "o.onnx", "--timeout-s", "5")
    assert done.returncode == 2, done.stderr
    assert re.search(r"with \d of \d operators rounded within 5 s; found it still at work", done.stderr), done.stderr


@pytest.mark.parametrize("rows", [2**62, -5])
@pytest.mark.parametrize("dtype", [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64])
def test_sizes_that_no_array_has_are_refused(conv, rows, dtype):
    model = onnx.load(conv)
    model.graph.input[0].type.tensor_type.elem_type = dtype
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = rows
    with pytest.raises(InputError, match="sizes of an array for 'x'"):
        feeds_for(onnx_ir.from_proto(model), None, 1, {})


def test_an_index_is_followed_through_any_number_of_nodes():
    casts = (f"c{number + 1} = Cast <to = 7> (c{number})\n" for number in range(3000))
    text = f"""
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (int64[3] c0) => (float[3] y) <float[5] table = {{1, 2, 3, 4, 5}}> {{
        {"".join(casts)} y = Gather(table, c3000)
    }}
    """
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    assert table_rows(model.graph.inputs[0]) == 5


def test_a_pipe_and_half_a_file_in_the_place_of_samples_are_refused(conv, tmp_path):
    os.mkfifo(tmp_path / "samples.npz")
    np.savez(tmp_path / "cut.npz", x=np.zeros((1, 2, 6, 6), np.float32))
    os.truncate(tmp_path / "cut.npz", 200)
    for name, message in (("cut.npz", "BadZipFile"), ("samples.npz", "is no file")):
        with pytest.raises(InputError, match=f"arrays of numbers in .*{message}"):
            feeds_for(read_source(conv), tmp_path / name, 1, {})


def test_an_operator_that_nobody_knows_is_named(conv):
    model = onnx.load(conv)
    model.graph.node[1].domain = "com.acme"
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    onnx.save(model, conv)
    with pytest.raises(ArtefactError, match=r"b of com\.acme\.Relu"):
        convert(conv)


def test_a_violation_of_the_target_ends_with_status_1_and_the_file_is_there(tmp_path):
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (float[2, 4, 4] x) => (float[2] y) { a = MatMul(x, x)  y = Det(a) }
    """
    done = precision(write_graph(tmp_path / "det.onnx", text), "--to", "fp16", "--out", tmp_path / "o.onnx")
    assert done.returncode == 1 and "Det is not among the operators" in done.stderr, done.stderr
    assert (tmp_path / "o.onnx").is_file()
