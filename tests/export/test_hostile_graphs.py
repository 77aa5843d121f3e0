"""Graphs that fail, never end, fill the memory or kill a runtime end `inspect` and `verify` with an error of a line."""

import re
import shutil
import subprocess
import sys
import time

import pytest

from attendant.errors import ArtefactError
from attendant.manifest import Manifest
from export.bounded.process import run_bounded
from export.verbs import check, inspect
from serving.runtime.openvino.runner import openvino_is_installed
from tests.export.hostile_graphs import (
    endless_loop,
    fails_as_it_runs,
    functions_in_functions,
    huge_tensor,
    long_chain,
    nested_conditions,
    relus,
    replace_graph,
    untyped_weight,
)

pytestmark = pytest.mark.timeout(120)
VERBS = {"inspect": inspect, "verify": check, "verify --target": lambda folder: check(folder, target="ort-cpu")}
INSPECTION = "export.inspection.inspection:inspect_artefact"


@pytest.fixture
def artefact(tmp_path, tiny_classifier):
    return shutil.copytree(tiny_classifier, tmp_path / "artefact")


@pytest.fixture
def signature(artefact):
    return Manifest.read(artefact).graphs[0]


def refusal(verb, folder, **options):
    with pytest.raises(ArtefactError) as refused:
        verb(folder, **options)
    assert str(folder / "model.onnx") in refused.value.expected
    return refused.value


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
@pytest.mark.parametrize(
    ("content", "expected"),
    [(functions_in_functions(60), "functions"), (nested_conditions(60), "subgraphs"), (relus(100_001), "nodes")],
    ids=["functions", "subgraphs", "nodes"],
)
def test_a_graph_beyond_the_bounds_is_refused_before_it_is_opened(content, expected, verb, artefact):
    replace_graph(artefact, content)
    assert expected in refusal(verb, artefact).expected


@pytest.mark.parametrize("verb", [inspect, check])
def test_a_graph_that_fails_as_it_runs_is_an_error_that_says_how(verb, artefact, signature):
    replace_graph(artefact, fails_as_it_runs(signature))
    error = refusal(verb, artefact)
    assert error.expected.startswith("ONNX Runtime to run ")
    assert "indices element out of data bounds" in error.found


@pytest.mark.planted
def test_so_is_one_for_tensorrt_that_fails_as_it_is_run_in_its_place(artefact, signature):
    assert (artefact / "model.tensorrt.onnx").is_file()
    replace_graph(artefact, fails_as_it_runs(signature), "model.tensorrt")
    error = refusal(check, artefact)
    assert "ONNX Runtime" in error.expected and "indices element out of data bounds" in error.found


@pytest.mark.parametrize("verb", [inspect, check])
def test_a_graph_that_never_ends_is_ended(verb, artefact, signature):
    replace_graph(artefact, endless_loop(signature))
    began = time.monotonic()
    error = refusal(verb, artefact, timeout_s=5)
    assert re.search(r"ONNX Runtime to run .* within 5 s", error.expected)
    assert 5 <= time.monotonic() - began < 60


def test_a_tensor_larger_than_the_memory_ends_the_graph_and_not_the_machine(artefact, signature):
    replace_graph(artefact, huge_tensor(signature, 64 << 20))
    assert run_bounded(INSPECTION, artefact).graphs[0].timings
    with pytest.raises(ArtefactError, match=r"ONNX Runtime to run .*model\.onnx; found .*[Ff]ailed to allocate"):
        run_bounded(INSPECTION, artefact, most_bytes=128 << 20)


@pytest.mark.skipif(not openvino_is_installed(), reason="it is OpenVINO that ends its process")
def test_a_graph_that_kills_a_runtime_is_an_error_of_one_line(artefact, signature):
    replace_graph(
        artefact, long_chain(signature, 12_000)
    )  # OpenVINO calls itself once a node: a stack of 8 MB ends later
    line = f"ulimit -s 512; exec {sys.executable} -m attendant verify {artefact}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert ended.returncode == 2, ended.stderr
    assert re.fullmatch(r"error: expected OpenVINO to load .*model\.onnx; found .* SIGSEGV;.*\n", ended.stderr)


def test_a_weight_of_no_type_is_the_graphs_error(artefact, signature):
    replace_graph(artefact, untyped_weight(signature))
    assert refusal(inspect, artefact).expected.startswith("an ONNX graph at ")
