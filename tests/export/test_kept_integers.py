"""A checkpoint in integers on the whole road: imported, exported with its very levels, and asked for tokens."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from transformers import GPT2LMHeadModel, LlamaForCausalLM, Qwen2ForCausalLM

from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.precision.precisions import precision_named
from models.checkpoints.importers.importing import import_checkpoint
from models.checkpoints.store import stored_integers
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import LanguageModel
from tests.models.checkpoints.importers.quantised.ggufs import KIND, theirs_of, write_gguf
from tests.models.checkpoints.importers.quantised.packed import SCHEMES, gpt2, llama, quantised, qwen2
from tests.models.checkpoints.importers.saved import VOCABULARY

PROMPTS = np.random.default_rng(0).integers(2, VOCABULARY, (3, 9)).tolist()
NEW_TOKENS = 20
MODELS = {"llama": (llama, LlamaForCausalLM), "qwen2": (qwen2, Qwen2ForCausalLM), "gpt2": (gpt2, GPT2LMHeadModel)}


GGUF = {"GGUF, Q8_0": KIND.Q8_0, "GGUF, Q4_0": KIND.Q4_0, "GGUF, Q4_K and Q6_K": KIND.Q4_K}
ORDINARY = {
    ("llama", "GPTQ"),
    ("llama", "GGUF, Q4_K and Q6_K"),
    ("llama", "compressed-tensors, 8 bits"),
    ("qwen2", "AWQ"),
    ("gpt2", "GPTQ, 8 bits"),
}
EVERY = ORDINARY | {("llama", scheme) for scheme in (*SCHEMES, *GGUF)}


@dataclass(frozen=True)
class Road:
    """A folder in integers on its way: its artefacts in fp32 and in integers, and what it stands for."""

    model: str
    bits: int
    fp32: Path
    kept: Path
    plain: Path
    matrices: dict


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(one, id=", ".join(one), marks=() if one in ORDINARY else pytest.mark.slow) for one in sorted(EVERY)
    ],
)
def road(request, tmp_path_factory):
    model, scheme = request.param
    place, matrices = tmp_path_factory.mktemp("road"), {}
    if scheme in GGUF:
        bits, plain = 8 if "Q8" in scheme else 4, place / "theirs"
        theirs = theirs_of(plain)
        mixed = {"blk.1.attn_v.weight": KIND.Q6_K, "output.weight": KIND.Q6_K} if "Q6" in scheme else {}
        (place / "gguf").mkdir()
        source = write_gguf(theirs, place / "gguf" / "tiny.gguf", GGUF[scheme], others=mixed)
        theirs.save_pretrained(plain)
    else:
        bits, source = SCHEMES[scheme][0], MODELS[model][0](place / "theirs")
        plain, matrices = quantised(source, scheme, turned=model == "gpt2")
    import_checkpoint(source, place / "ours")
    export_onnx(str(place / "ours"), place / "fp32", precision="fp32")
    made, _ = export_onnx(str(place / "ours"), place / "kept", exported=place / "fp32")
    assert made.precision == f"int{bits}"
    return Road(model, bits, place / "fp32", place / "kept", plain, matrices)


def greedy(artefact):
    served = LanguageModel(artefact, Manifest.read(artefact), settings=EngineSettings())
    said = [[] for _ in PROMPTS]
    for prompt, chunks in zip(PROMPTS, said, strict=True):
        served.engine.submit(
            served.request(prompt, SamplingParams(max_tokens=NEW_TOKENS, ignore_eos=True)), chunks.append
        )
    while served.engine.step():
        pass
    return [[token for chunk in chunks for token in chunk.token_ids] for chunks in said]


def their_greedy(kind, folder):
    theirs = kind.from_pretrained(folder, dtype=torch.float32).eval()
    theirs.generation_config.eos_token_id = None
    answers = [
        theirs.generate(torch.tensor([prompt]), max_new_tokens=NEW_TOKENS, do_sample=False)[0].tolist()
        for prompt in PROMPTS
    ]
    return [answer[len(prompt) :] for prompt, answer in zip(PROMPTS, answers, strict=True)]


def weights_of(artefact):
    graph = ir.load(artefact / "decoder.onnx").graph
    return {name: one.const_value.numpy() for name, one in graph.initializers.items()}


def test_tokens_are_transformers_own_on_the_dequantised_weights(road):
    assert greedy(road.fp32) == their_greedy(MODELS[road.model][1], road.plain)


def test_a_graph_in_integers_has_the_very_levels_scales_and_zero_points(road):
    if not road.matrices:
        pytest.skip("what a GGUF file holds is held to gguf-py's numbers in tests/models")
    weights = weights_of(road.kept)
    down = next(name for name in road.matrices if name.endswith((".1.mlp.down_proj", ".1.mlp.c_proj")))
    together = [one for one in road.matrices if ".1." in one and one.endswith(("q_proj", "k_proj", "v_proj", "c_attn"))]
    order = sorted(together, key=lambda name: "qkv".find(name[-6]))
    assert len(order) in (1, 3)
    for part, modules in (("mlp.contract", [down]), ("attention.query", order)):
        levels, zeros = zip(*(road.matrices[name].signed() for name in modules), strict=True)
        kind = "int8" if road.bits == 8 else "int4" if zeros[0] is None else "uint4"
        prefix = next(name for name in weights if f"blocks.1.{part}" in name and name.endswith(kind)).removesuffix(kind)
        assert np.array_equal(weights[f"{prefix}{kind}"].astype(int), np.concatenate(levels).T)
        scale = np.concatenate([road.matrices[name].scale for name in modules]).T.astype(np.float32)
        found = weights[f"{prefix}scale"].reshape(-1, scale.shape[1])
        assert np.array_equal(found, scale.repeat(len(found) // len(scale), 0))
        if zeros[0] is not None:
            assert np.array_equal(weights[f"{prefix}zero_point"].astype(int), np.concatenate(zeros).T)
        else:
            assert not weights.get(f"{prefix}zero_point", np.zeros(1)).any()
    assert not any(name.endswith(".shift") for name in weights)


def test_every_matrix_of_the_checkpoint_is_in_the_graph_to_the_last_bit(road):
    weights, found = weights_of(road.kept), 0
    stored = {name: one.read() for name, one in stored_integers(road.fp32.with_name("ours")).items()}
    for name in [one for one in weights if one.rpartition(".")[2] in ("int8", "int4", "uint4")]:
        prefix, _, kind = name.rpartition(".")
        parameters = [part.removeprefix("model.").removesuffix(".transposed") for part in prefix.split("|")]
        if not all(one in stored for one in parameters):
            continue  # the table of embeddings and the last layer, which the checkpoint has in floating point
        joined = [stored[one] for one in parameters]
        found += len(joined)
        assert np.array_equal(weights[name].astype(int), torch.cat([one.levels for one in joined]).T.numpy())
        scale = torch.cat([one.scale for one in joined]).T.numpy()
        assert np.array_equal(weights[f"{prefix}.scale"].reshape(scale.shape), scale)
        assert {4: "int4", 8: "int8"}[joined[0].bits] in kind
        if joined[0].minimum is not None:
            zero, minimum = weights[f"{prefix}.zero_point"], torch.cat([one.minimum for one in joined]).T.numpy()
            exact = zero.astype(np.float64) * scale - minimum.astype(np.float64)
            assert np.array_equal(weights[f"{prefix}.shift"], exact.astype(np.float32))
    assert found == len(stored) >= 8


def test_its_products_compute_with_exactly_those_weights(road):
    """Parity in float64 arithmetic of what is multiplied: the drift is that of 8-bit activations and the last layer."""
    levels = levels_of(check_parity(road.kept), precision_named(f"int{road.bits}"))
    assert [level for level in levels if not level.passed] == []
    passes = {done["name"]: done for done in Manifest.read(road.kept).passes["decoder"]}
    assert passes["keep_integers"]["fired"] >= 8
    assert "quantise_weights" not in passes
