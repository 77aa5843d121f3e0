"""Weights have their names, tied ones are stored once, and the manifest's map is enough to put others in place."""

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from attendant.manifest import Manifest
from export.graph import exported_graph
from export.graph.exported_graph import ExportedGraph
from export.graph.onnx_graph import onnx_from_torch
from export.graph.weights import TRANSPOSED
from export.passes.lowering import lower_graph
from models.checkpoints.resolve import checkpoint_named
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort.runner import OrtRunner


def weights_of(path):
    """The weights of a graph's file: name → array."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


@pytest.fixture(scope="module")
def gpt2(exported):
    """A tiny GPT-2, whose embedding is its head, and its decoder in a file."""
    (graph,) = checkpoint_named("gpt2-tiny").graphs()
    return graph, exported("gpt2-tiny") / "decoder.onnx"


def test_a_tied_embedding_is_stored_once(gpt2):
    graph, path = gpt2
    floats = [array for array in weights_of(path).values() if array.dtype == np.float32]
    assert sum(array.size for array in floats) == sum(parameter.numel() for parameter in graph.module.parameters())


def test_norms_that_happen_to_be_equal_stay_apart(gpt2):
    graph, path = gpt2
    norms = {name for name, _ in graph.module.named_parameters() if "norm" in name}
    assert len(norms) == 10
    assert norms <= weights_of(path).keys()


@pytest.mark.parametrize("artefact", ["tiny_translator", "tiny_classifier", "language_model"])
def test_each_weight_is_the_parameter_that_the_manifest_says_it_is(artefact, request):
    folder = request.getfixturevalue(artefact)
    manifest = Manifest.read(folder)
    parameters = dict(checkpoint_named(manifest.source).model.named_parameters())
    read = set()
    for graph, origins in manifest.weights.items():
        weights = weights_of(folder / f"{graph}.onnx")
        for name, (parameter,) in ((name, names) for name, names in origins.items() if names[0] in parameters):
            found = weights[name].T if name.endswith(TRANSPOSED) else weights[name]
            np.testing.assert_array_equal(found, parameters[parameter].detach().numpy())
            read.add(parameter)
    assert read == parameters.keys(), "of all graphs together"


def test_what_is_computed_from_several_parameters_names_them_all(tmp_path):
    *_, graph = checkpoint_named("gru-seq2seq-tiny").graphs()
    origins = onnx_from_torch(graph).origins
    (biases,) = (names for names in origins.values() if len(names) == 2)
    assert [name.rpartition(".")[2] for name in biases] == ["bias_ih_l0", "bias_hh_l0"]
    assert {name for names in origins.values() for name in names} <= dict(graph.module.named_parameters()).keys()


def test_the_map_is_enough_to_refit_a_graph(gpt2, tmp_path):
    graph, path = gpt2
    trained = checkpoint_named("gpt2-tiny").model
    with torch.no_grad():
        for number, parameter in enumerate(trained.parameters()):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
    values = {f"model.{name}": value.detach().numpy() for name, value in trained.named_parameters()}
    model, origins = onnx.load(path), ExportedGraph.read(path.parent, graph.signature).origins
    for tensor in (tensor for tensor in model.graph.initializer if tensor.name in origins):
        value = values[origins[tensor.name][0]]
        tensor.CopyFrom(numpy_helper.from_array(value.T if tensor.name.endswith(TRANSPOSED) else value, tensor.name))
    onnx.save(model, tmp_path / "decoder.onnx")
    tokens = np.array([[3, 1, 4, 1, 5]])
    logits = CachedDecoder(OrtRunner(tmp_path / "decoder.onnx", graph.signature), 1).step(tokens, np.array([0]))
    np.testing.assert_allclose(logits["logits"], trained(torch.tensor(tokens)).detach().numpy(), atol=1e-4)


@pytest.mark.slow
def test_large_weights_stand_in_a_file_of_their_own_which_the_lowered_graph_shares(tmp_path, monkeypatch):
    monkeypatch.setattr(exported_graph, "LARGE", 1000)
    _, graph = checkpoint_named("transformer-tiny").graphs()
    onnx_from_torch(graph).write(tmp_path)
    lowered, _ = lower_graph(ExportedGraph.read(tmp_path, graph.signature), tmp_path)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"decoder.onnx", "decoder.onnx.data", "decoder.ort-cpu.onnx", "decoder.tensorrt.onnx"}
    parameters = sum(np.prod(value.shape) * 4 for value in weights_of(tmp_path / "decoder.onnx").values())
    assert sizes["decoder.onnx.data"] > parameters / 2
    assert max(sizes["decoder.onnx"], sizes["decoder.ort-cpu.onnx"]) < 60_000
    apart = OrtRunner(tmp_path / lowered.file, graph.signature)
    assert apart.signature == graph.signature
