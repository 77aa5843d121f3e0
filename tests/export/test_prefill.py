"""Prompts read in 8 bits beside a decoder of 4: what is exported, proved and refused, and how an engine uses it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
import pytest

from attendant.errors import ArtefactError, ConfigError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import LOGITS, PREFILL
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.precision.precisions import PRECISIONS
from export.targets.check import validate_for_target
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import LanguageModel, _prefill_of
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from tests.conftest import LANGUAGE_MODEL
from tests.text_checkpoints import write_language_model

PROMPT = [0, *range(20, 54)]
"""More than a block of the prefix cache."""


@pytest.fixture(scope="module", params=["int4", "int4-kv8"])
def writer(request, exported, tmp_path_factory):
    """A tiny Llama whose prompts are read in int8, over caches of floats or of bytes."""
    place = tmp_path_factory.mktemp("prefill")
    np.savez(place / "prompts.npz", token_ids=np.random.default_rng(0).integers(3, 60, (16, 12)))
    folder = exported.checkpoint(LANGUAGE_MODEL, write_language_model)
    samples = place / "prompts.npz" if PRECISIONS[request.param].calibrated else None
    export_onnx(str(folder), place / "writer", precision=request.param, calibration=samples, prefill="int8")
    return place / "writer"


def model_of(folder, **settings):
    return LanguageModel(folder, Manifest.read(folder), settings=EngineSettings(**settings))


def answer(model, prompt=PROMPT, **options):
    request = model.request(prompt, SamplingParams(max_tokens=4, ignore_eos=True, **options))
    return [token for output in model.stream(request) for token in output.token_ids]


def by_hand(folder, prompt, steps=4):
    """The prompt but its last token by one graph, all else by the other."""
    runners = create_runners(folder, Manifest.read(folder))
    decoder, tokens = CachedDecoder(runners["decoder"], 1), list(prompt)
    CachedDecoder.over(runners[PREFILL], decoder.caches, {}).step(np.array([prompt[:-1]]), np.array([0]))
    for position in range(len(prompt) - 1, len(prompt) - 1 + steps):
        logits = decoder.step(np.array([[tokens[position]]]), np.array([position]))[LOGITS]
        tokens.append(int(logits[0, -1].argmax()))
    return tokens[len(prompt) :]


def test_the_graph_has_the_decoders_caches_and_neither_a_head_nor_what_stands_behind_its_last_keys(writer):
    manifest = Manifest.read(writer)
    decoder, prefill = (manifest.signature_for(name, "ort-cpu") for name in ("decoder", PREFILL))
    assert prefill.aliases == decoder.aliases
    assert [prefill.input(name) for name in prefill.aliases.values()] == [
        decoder.input(name) for name in decoder.aliases.values()
    ]
    assert {spec.name for spec in prefill.outputs} == set(prefill.aliases)
    graphs = [ir.load(writer / f"{name}.onnx").graph for name in ("decoder", PREFILL)]
    attentions = [sum(node.op_type == "Attention" for node in graph) for graph in graphs]
    assert attentions == [2, 1]
    assert {spec.dtype for spec in prefill.inputs if spec.name in prefill.aliases.values()} == {
        "int8" if manifest.precision == "int4-kv8" else "float32"
    }


def test_both_graphs_pass_the_parity_check(writer):
    precision = Manifest.read(writer).precision
    levels = levels_of(check_parity(writer), PRECISIONS[precision])
    read = {level.name for level in levels if level.graph == PREFILL}
    assert {f"cached ort {precision}", "cached eager float64"} <= read
    assert [level for level in levels if not level.passed] == []


def test_prompts_are_read_by_it_and_their_last_token_by_the_decoder(writer):
    expected = by_hand(writer, PROMPT)
    assert answer(model_of(writer)) == expected
    assert answer(model_of(writer, max_prefill_tokens=7, prefix_cache_bytes=0)) == expected, "in pieces"
    model = model_of(writer)
    assert [answer(model) for _ in range(2)] == [expected] * 2
    assert model.engine.meter.prefix_tokens == 32
    assert answer(model_of(writer), [5]) == answer(model_of(writer), [5]), "a prompt of one token has nothing to read"


def test_several_prompts_are_answered_as_alone_and_beams_go_on_from_one(writer):
    model, prompts = model_of(writer, prefix_cache_bytes=0), [PROMPT, PROMPT[:9], [7, 8, 9], [11]]
    alone = [answer(model, prompt) for prompt in prompts]
    streams = [model.stream(model.request(prompt, SamplingParams(max_tokens=4, ignore_eos=True))) for prompt in prompts]
    found = [[] for _ in prompts]
    while any(parts := [next(stream, None) for stream in streams]):
        for tokens, part in zip(found, parts, strict=True):
            tokens += part.token_ids if part else ()
    assert found == alone
    beams = answer(model, beam_width=3)
    assert beams == answer(model_of(writer, max_prefill_tokens=7), beam_width=3) and len(beams) >= 4


def test_a_scored_prompt_is_the_decoders_alone_and_leaves_nothing_for_others(writer):
    expected, model = by_hand(writer, PROMPT), model_of(writer)
    request = model.request(PROMPT, SamplingParams(max_tokens=1, echo=True, logprobs=True, ignore_eos=True))
    scored = [one for output in model.stream(request) for one in output.logprobs or ()]
    decoder = CachedDecoder(model.runners["decoder"], 1)
    logits = decoder.step(np.array([PROMPT]), np.array([0]))[LOGITS][0].astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = [log_p[place, token] for place, token in enumerate(PROMPT[1:])]
    np.testing.assert_allclose(scored[1 : len(PROMPT)], wanted, atol=0.05)
    assert answer(model) == expected
    assert model.engine.meter.prefix_tokens == 0


def test_tensorrt_reads_prompts_by_the_decoder(writer):
    manifest = Manifest.read(writer)
    assert [one.name for one in manifest.graphs_for("tensorrt")] == ["decoder"]
    assert {one.graph for one in manifest.lowered if one.target == "tensorrt"} == {"decoder"}
    _, checks = validate_for_target(writer, "tensorrt")
    assert {check.graph for check in checks} == {"decoder"}
    assert not (writer / "prefill.tensorrt.onnx").exists()


def test_the_same_export_is_known_and_another_is_not(writer, exported):
    manifest = Manifest.read(writer)
    folder = str(exported.checkpoint(LANGUAGE_MODEL, write_language_model))
    samples = writer.parent / "prompts.npz" if manifest.precision == "int4-kv8" else None
    same = export_onnx(folder, writer, precision=manifest.precision, calibration=samples, prefill="int8")
    assert same == (manifest, False)
    assert "--prefill int8" in (writer / "reproduce.sh").read_text()


def test_one_of_another_decoder_is_refused(writer):
    manifest = Manifest.read(writer)
    decoder, prefill = manifest.graphs
    others = replace(prefill, inputs=(replace(prefill.inputs[0], dtype="int32"), *prefill.inputs[1:]))
    runners = {"decoder": SimpleNamespace(signature=decoder), PREFILL: SimpleNamespace(signature=others)}
    with pytest.raises(ArtefactError, match="a graph prefill of a language model, with its decoder's inputs"):
        _prefill_of(runners)
    runners[PREFILL].signature = prefill
    assert _prefill_of(runners) is runners[PREFILL]
    with pytest.raises(ArtefactError, match="of a language model"):
        _prefill_of({**runners, "encoder": None})


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_precision_that_gains_nothing_is_refused(precision, tmp_path):
    with pytest.raises(ConfigError, match=r"read in another: int4, int4-hqq, int4-kv8; found --prefill int8"):
        export_onnx("llama-tiny", tmp_path / "artefact", precision=precision, prefill="int8")


def test_a_model_without_prompts_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="a language model, whose prompts are long"):
        export_onnx("dates-transformer", tmp_path / "artefact", precision="int4", prefill="int8")
