import dataclasses
import inspect

import pytest
import torch

from attendant.errors import ArtefactError
from attendant.records import record_from_json, record_to_json
from attendant.signature import GraphSignature
from models.checkpoints.resolve import checkpoint_named
from models.families.seq2seq import Seq2SeqTransformer
from models.presets import PRESETS
from models.registry import FAMILIES
from models.tasks.translate import decoder_signature
from tests.models.agreement import EXACT, difference
from tests.models.checkpoints.folders import TINY, tiny_checkpoint
from tests.models.families.cached_decoding import seen_mask
from tests.models.families.translation import CONFIG, logits_of, random_batch, translator

SIZES = {
    "batch": 3,
    "source": 5,
    "tokens": 5,
    "steps": 2,
    "attended": 4,
    "scored": 1,
    "height": 7,
    "width": 9,
    "positions": 12,
}
SMALLEST = {
    "batch": 1,
    "source": 1,
    "tokens": 1,
    "steps": 1,
    "attended": 3,
    "scored": 1,
    "height": 2,
    "width": 3,
    "positions": 1,
}
GRAPHS = [(name, graph.signature.name) for name in TINY for graph in tiny_checkpoint(name).graphs()]
every_graph = pytest.mark.parametrize(("preset", "graph_name"), GRAPHS)


def graph_of(preset, graph_name):
    (graph,) = (graph for graph in tiny_checkpoint(preset).graphs() if graph.signature.name == graph_name)
    return graph


def sample_inputs(signature, sizes):
    generator = torch.Generator().manual_seed(0)
    return [sample_tensor(spec, sizes, generator) for spec in signature.inputs]


def sample_tensor(spec, sizes, generator):
    shape = spec.shape(sizes)
    if spec.dtype == "float32":
        return torch.randn(shape, generator=generator)
    if spec.dtype == "bool":
        return torch.ones(shape, dtype=torch.bool)
    return (
        torch.zeros(shape, dtype=torch.int64)
        if spec.name == "scored"
        else torch.randint(0, 2, shape, generator=generator)
    )


def results(graph, sizes):
    outputs = graph.module(*sample_inputs(graph.signature, sizes))
    return [outputs] if isinstance(outputs, torch.Tensor) else outputs


@every_graph
@pytest.mark.parametrize("sizes", [SIZES, SMALLEST], ids=["usual", "smallest"])
def test_a_graph_returns_what_its_signature_says(preset, graph_name, sizes):
    graph = graph_of(preset, graph_name)
    outputs = results(graph, sizes)
    for spec, tensor in zip(graph.signature.outputs, outputs, strict=True):
        spec.check(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        assert tuple(tensor.shape) == spec.shape(sizes), spec.name


@every_graph
def test_the_parameters_of_the_module_are_the_inputs_of_the_signature(preset, graph_name):
    graph = graph_of(preset, graph_name)
    parameters = inspect.signature(graph.module.forward).parameters.values()
    named = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    assert named == [spec.name for spec in graph.signature.inputs][: len(named)]


@every_graph
def test_every_name_of_a_graph_is_its_own(preset, graph_name):
    signature = graph_of(preset, graph_name).signature
    names = [spec.name for spec in (*signature.inputs, *signature.outputs)]
    assert len(set(names)) == len(names)


@every_graph
def test_a_signature_survives_json(preset, graph_name):
    signature = graph_of(preset, graph_name).signature
    assert record_from_json(GraphSignature, record_to_json(signature)) == signature


@pytest.mark.parametrize(
    ("task", "graphs"),
    [
        ("translate", ["encoder", "decoder"]),
        ("caption", ["encoder", "decoder"]),
        ("generate", ["decoder"]),
        ("classify", ["model"]),
        ("embed", ["model"]),
    ],
)
def test_every_preset_of_a_task_has_the_same_graphs(task, graphs):
    presets = [name for name in TINY if FAMILIES[PRESETS[name].family].task.name == task]
    assert presets
    assert all([graph for preset, graph in GRAPHS if preset == name] == graphs for name in presets)


@every_graph
def test_every_varying_axis_but_the_batch_has_a_largest_size(preset, graph_name):
    graph = graph_of(preset, graph_name)
    assert {"batch", *graph.largest} == set(graph.signature.symbols())


def test_the_encoder_gives_what_the_decoder_takes():
    encoder, decoder = (graph.signature for graph in tiny_checkpoint("transformer-tiny").graphs())
    assert decoder.inputs[-len(encoder.outputs) :] == encoder.outputs


@pytest.mark.parametrize("layers", [1, 6, 12])
def test_outputs_and_inputs_of_the_cache_pair_up_when_both_are_sorted(layers):
    aliases = decoder_signature(dataclasses.replace(CONFIG, layers=layers)).aliases
    assert len(aliases) == 2 * layers
    assert dict(zip(sorted(aliases), sorted(aliases.values()), strict=True)) == aliases


@pytest.mark.parametrize("layers", [1, 6, 12])
def test_sorting_the_tensors_of_the_layers_by_name_keeps_their_order(layers):
    signature = decoder_signature(dataclasses.replace(CONFIG, layers=layers))
    for specs, prefix in ((signature.inputs, "self_"), (signature.inputs, "cross_"), (signature.outputs, "self_")):
        names = [spec.name for spec in specs if spec.name.startswith(prefix) and spec.name != "self_mask"]
        assert len(names) == 2 * layers
        assert names == sorted(names)


def test_an_aliased_output_holds_its_input_wherever_the_step_wrote_nothing():
    graph = graph_of("transformer-tiny", "decoder")
    inputs = sample_inputs(graph.signature, SIZES)
    by_input = {spec.name: tensor for spec, tensor in zip(graph.signature.inputs, inputs, strict=True)}
    by_input["start"].fill_(0)
    outputs = dict(zip((spec.name for spec in graph.signature.outputs), graph.module(*inputs), strict=True))
    for output, source in graph.signature.aliases.items():
        unchanged = (outputs[output] == by_input[source]).all(-1).all(1)
        assert unchanged.tolist() == [[False] * 2 + [True] * 6] * 3, output


@pytest.mark.planted
def test_encoder_and_decoder_graph_together_give_the_logits_of_the_model():
    batch, checkpoint = random_batch(target_length=4), tiny_checkpoint("transformer-tiny")
    model = checkpoint.model.double()
    assert isinstance(model, Seq2SeqTransformer)
    encoder, decoder = checkpoint.graphs()
    crosses = encoder.module(batch.source_ids, batch.source_mask)
    start = torch.zeros(3, dtype=torch.int64)
    caches = [
        torch.zeros(spec.shape({"batch": 3})).double() for spec in decoder.signature.inputs if spec.name.endswith("_in")
    ]
    every = torch.arange(4)[None].expand(3, 4)
    inputs = batch.target_ids, start, seen_mask(start, 4, 4), every, batch.source_mask
    logits, *_ = decoder.module(*inputs, *caches, *crosses)
    assert difference(logits, logits_of(model, batch)) <= EXACT
    swapped, *_ = decoder.module(*inputs, *caches, *reversed(crosses))
    assert difference(swapped, logits_of(model, batch)) > 1e-3


def test_serving_details_of_a_translator_add_token_ids_and_lengths_to_its_own():
    checkpoint = tiny_checkpoint("transformer-tiny")
    details = checkpoint.serving_details()
    assert details == {
        "labels": ["é", "b"],
        "start_token": 1,
        "end_token": 2,
        "max_source_length": 12,
        "max_target_length": 8,
    }
    assert "start_token" not in checkpoint.details


def test_serving_details_of_a_classifier_are_a_copy_of_its_own():
    checkpoint = checkpoint_named("vit-tiny")
    checkpoint.serving_details()["new"] = 1
    assert checkpoint.details == {}


def test_an_alias_of_an_output_with_an_input_of_other_axes_is_refused():
    signature = decoder_signature(translator().config)
    with pytest.raises(ArtefactError, match="'logits' → 'token_ids'"):
        dataclasses.replace(signature, aliases={"logits": "token_ids"})
