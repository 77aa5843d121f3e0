import dataclasses
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from attendant.errors import ArtefactError, OutputError
from attendant.manifest import Manifest, sha256_of
from attendant.quantities import bytes_text, count_text, seconds_text
from export.inspection.facts import Cache, bits
from export.inspection.inspection import inspect_artefact
from export.inspection.page import page, write_page
from export.inspection.timing import questions
from models.checkpoints.resolve import checkpoint_named
from serving.runtime.ort.runner import OrtRunner
from tests.export.rewritten import rewritten
from tests.run_here import run_here


@pytest.fixture(scope="module")
def facts(tiny_translator):
    return inspect_artefact(tiny_translator)


def test_operators_and_weights_are_those_of_the_file(facts, tiny_translator):
    model = onnx.load(tiny_translator / "decoder.onnx")
    decoder = facts.graphs[1]
    assert sum(decoder.operators.values()) == len(model.graph.node)
    assert decoder.operators["TensorScatter"] == 4
    sizes = {tensor.name: numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer}
    assert {weight.name: weight.nbytes for weight in decoder.weights} == sizes
    assert sum(size for *_, size in decoder.by_type.values()) == sum(sizes.values())


def test_a_cache_has_the_bytes_of_the_buffers_that_it_takes(facts, tiny_translator):
    signature = Manifest.read(tiny_translator).graph("decoder")
    runner = OrtRunner(tiny_translator / "decoder.onnx", signature)
    buffers = [runner.allocate(name, {"batch": 3}).nbytes for name in signature.aliases.values()]
    cache = facts.graphs[1].cache
    assert cache.nbytes(3) == sum(buffers)
    assert cache.nbytes(1, 2 * cache.positions) == 2 * cache.nbytes(1)
    numbers = [int(number) for number in re.findall(r"\d+", cache.formula)]
    assert np.prod(numbers) * cache.positions == cache.nbytes(1)
    assert facts.graphs[0].cache is None


def test_a_decoder_is_timed_for_a_prompt_and_for_a_step(facts):
    encoder, decoder = facts.graphs
    assert [timing.name for timing in encoder.timings] == ["call"]
    assert [(timing.name, timing.sizes["steps"]) for timing in decoder.timings] == [("prompt", 4), ("step", 1)]
    assert all("MatMul" in timing.profile.by_operator for timing in (*encoder.timings, *decoder.timings))


def test_graphs_with_caches_in_half_precision_are_timed_too(tiny_translator, tmp_path):
    found = inspect_artefact(rewritten(tiny_translator, "fp16", tmp_path / "fp16"))
    assert [(len(graph.timings), graph.untimed) for graph in found.graphs] == [(1, ""), (2, "")]


def test_a_state_that_does_not_grow_has_no_positions():
    decoder = checkpoint_named("gru-seq2seq-tiny").graphs()[1].signature
    kept = tuple(decoder.input(name) for name in decoder.aliases.values())
    assert Cache(tensors=kept, positions=0).capacities == ()
    assert Cache(tensors=kept, positions=0).formula.startswith("B × (1 × ")


def test_no_question_is_outside_of_what_a_graph_takes(tiny_translator):
    for graph in Manifest.read(tiny_translator).graphs:
        for _, sizes in questions(graph):
            assert sizes.keys() == graph.axes.keys()
            assert all(graph.axes[symbol].min <= size <= graph.axes[symbol].max for symbol, size in sizes.items())


@pytest.mark.parametrize(
    ("dtype", "size"), [("int4", 4), ("float8e4m3fn", 8), ("bfloat16", 16), ("bool", 8), ("float64", 64), ("int8", 8)]
)
def test_an_element_has_the_bits_of_its_type(dtype, size):
    assert bits(dtype) == size


def test_weights_of_every_precision_are_counted_and_a_graph_that_cannot_run_is_shown_all_the_same(
    tiny_classifier, tmp_path
):
    folder = shutil.copytree(tiny_classifier, tmp_path / "artefact")
    path = folder / "model.onnx"
    model = onnx.load(path)
    narrow = helper.make_tensor("narrow", onnx.TensorProto.INT4, [5], [1, 2, 3, 4, 5])
    half = helper.make_tensor("half", onnx.TensorProto.BFLOAT16, [3], [1.0, 2.0, 3.0])
    model.graph.initializer.extend([narrow, half])
    model.graph.node.insert(0, helper.make_node("Relu", ["half"], ["unused"]))
    onnx.save(model, path)
    manifest = Manifest.read(folder)
    dataclasses.replace(manifest, files={**manifest.files, path.name: sha256_of(path)}).write(folder)
    (found,) = inspect_artefact(folder).graphs
    assert found.by_type["int4"] == (1, 5, 3)
    assert found.by_type["bfloat16"] == (1, 3, 6)
    assert found.timings == ()
    assert "Relu" in found.untimed


def test_a_damaged_file_is_not_inspected(tiny_classifier, tmp_path):
    folder = shutil.copytree(tiny_classifier, tmp_path / "artefact")
    (folder / "model.onnx").write_bytes(b"damaged")
    with pytest.raises(ArtefactError, match="SHA-256"):
        inspect_artefact(folder)


class Reader(HTMLParser):
    """What a page is made of: open elements, where addresses lead, words."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.tags, self.words = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in {"src", "href"}]
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_names_every_graph_and_loads_nothing(facts):
    reader = Reader()
    text = page(facts)
    reader.feed(text)
    assert reader.open == []
    assert reader.addresses == []
    assert "script" not in reader.tags
    assert "@import" not in text
    assert "url(" not in text
    assert {"encoder", "decoder", "TensorScatter", "float32"} <= set(reader.words)
    assert reader.tags.count("rect") == sum(len(timing.profile.nodes) for g in facts.graphs for timing in g.timings)


def test_names_cannot_break_out_of_the_page(facts):
    named = dataclasses.replace(facts, manifest=dataclasses.replace(facts.manifest, family="<script>alert(1)</script>"))
    assert "<script>" not in page(named) and "&lt;script&gt;" in page(named)


def test_a_page_that_cannot_be_written_is_refused_by_its_path(facts, tmp_path):
    with pytest.raises(OutputError, match="nowhere"):
        write_page(facts, tmp_path / "nowhere" / "page.html")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (bytes_text(999), "999 B"),
        (bytes_text(999_999), "1 MB"),
        (bytes_text(3_287_513), "3.29 MB"),
        (count_text(816_016), "816 k"),
        (count_text(12), "12"),
        (seconds_text(0.000254), "254 µs"),
        (seconds_text(1.716), "1.72 s"),
        (seconds_text(0), "< 1 µs"),
    ],
)
def test_quantities_read_as_people_write_them(text, wanted):
    assert text == wanted


def test_the_command_prints_tables_or_json_and_writes_the_page(tiny_classifier, tmp_path):
    tables = run_here("export", "inspect", tiny_classifier).stdout
    assert "slowest nodes" in tables
    path = tmp_path / "page.html"
    shown = run_here("export", "inspect", tiny_classifier, "--json", "--html", path)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["graphs"]["model"]["precision"]["float32"]["tensors"] > 0
    assert path.read_text().startswith("<!doctype html>")
