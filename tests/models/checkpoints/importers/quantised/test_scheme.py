import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2LMHeadModel, LlamaForCausalLM, Qwen2ForCausalLM

from attendant.errors import ArtefactError, ConfigError
from models.checkpoints.importers.importing import import_checkpoint
from models.checkpoints.store import load_checkpoint, stored_integers
from tests.models.checkpoints.importers.quantised.packed import SCHEMES, gpt2, llama, quantised, qwen2
from tests.models.checkpoints.importers.saved import GONE, assert_same, causal, imported, rewrite, write

QUERY, DOWN = "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.down_proj"
OURS = {QUERY: "blocks.1.attention.query.weight", DOWN: "blocks.1.mlp.contract.weight"}


@pytest.fixture
def folder(tmp_path):
    return llama(tmp_path / "theirs")


@pytest.mark.planted
@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_imported_folder_computes_what_its_dequantised_one_does(scheme, folder):
    plain, _ = quantised(folder, scheme)
    assert_same(imported(folder), LlamaForCausalLM, plain, causal())


@pytest.mark.planted
def test_a_qwen_computes_what_its_dequantised_one_does(tmp_path):
    folder = qwen2(tmp_path / "theirs", tie_word_embeddings=True)
    plain, _ = quantised(folder, "AWQ")
    assert_same(imported(folder), Qwen2ForCausalLM, plain, causal())


@pytest.mark.planted
def test_a_joint_projection_whose_matrix_stands_the_other_way_round_is_parted(tmp_path):
    folder = gpt2(tmp_path / "theirs")
    plain, matrices = quantised(folder, "GPTQ", turned=True)
    checkpoint = imported(folder)
    assert_same(checkpoint, GPT2LMHeadModel, plain, causal(), indifferent=("attention.key.bias",))
    kept = stored_integers(checkpoint.folder)
    joint = torch.from_numpy(matrices["transformer.h.1.attn.c_attn"].signed()[0])
    parts = [kept[f"blocks.1.attention.{one}.weight"].read().levels for one in ("query", "key", "value")]
    assert torch.equal(torch.cat(parts).long(), joint)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_checkpoint_keeps_the_very_levels_scales_and_zero_points(scheme, folder):
    _, matrices = quantised(folder, scheme)
    kept = stored_integers(imported(folder).folder)
    assert len(kept) == len(matrices) == 14
    for theirs, ours in OURS.items():
        found, matrix = kept[ours].read(), matrices[theirs]
        levels, zero = matrix.signed()
        assert found.bits == matrix.bits
        assert torch.equal(found.levels.long(), torch.from_numpy(levels))
        scale = torch.from_numpy(matrix.scale).float()
        assert torch.equal(found.scale, scale.repeat_interleave(matrix.group // found.block_size, 1))
        assert (found.zero is None) == (zero is None)
        assert zero is None or torch.equal(found.zero.long(), torch.from_numpy(zero))
        wanted = matrix.dequantised()
        assert torch.equal(load_checkpoint(folder.with_name("theirs-imported")).model.get_parameter(ours), wanted)


def test_an_import_says_how_many_matrices_there_are_and_what_keeps_them(folder, tmp_path):
    quantised(folder, "GPTQ")
    done = import_checkpoint(folder, tmp_path / "ours")
    assert done.difference is not None
    assert done.notes == (
        "14 matrices in integers of 4 bits: an export keeps them, in int4; one with --precision fp32 computes with the"
        " numbers that they stand for",
    )
    assert load_checkpoint(tmp_path / "ours").details["weight_bits"] == 4
    size = (tmp_path / "ours" / "model.safetensors").stat().st_size
    assert size < 0.5 * (tmp_path / "theirs-dequantised" / "model.safetensors").stat().st_size


def changed(folder, **changes):
    """Change tensors of the weights; None takes one out."""
    tensors = {**load_file(folder / "model.safetensors"), **changes}
    kept = {name: one.contiguous() for name, one in tensors.items() if one is not None}
    save_file(kept, folder / "model.safetensors")


def test_groups_in_another_order_are_refused_by_name(folder):
    quantised(folder, "GPTQ")
    group_of = load_file(folder / "model.safetensors")[f"{DOWN}.g_idx"]
    changed(folder, **{f"{DOWN}.g_idx": group_of.flip(0)})
    with pytest.raises(ConfigError, match="act-order") as caught:
        imported(folder)
    assert caught.value.found.startswith("GPTQ: ")
    assert not folder.with_name("theirs-imported").exists()


def test_act_order_whose_groups_are_in_order_is_read(folder):
    plain, _ = quantised(folder, "GPTQ")
    config = {**SCHEMES["GPTQ"][4], "desc_act": True, "static_groups": True}
    rewrite(folder / "config.json", quantization_config=config)
    assert_same(imported(folder), LlamaForCausalLM, plain, causal())


def test_a_zero_point_that_programs_read_differently_is_refused(folder):
    quantised(folder, "GPTQ, zero points")
    changed(folder, **{f"{DOWN}.qzeros": load_file(folder / "model.safetensors")[f"{DOWN}.qzeros"] | 15})
    with pytest.raises(ConfigError, match="a zero point of 16, which the first format holds as it holds 0"):
        imported(folder)


@pytest.mark.parametrize(
    ("scheme", "part", "change"),
    [
        ("GPTQ", "qweight", None),
        ("GPTQ", "qzeros", None),
        ("GPTQ", "scales", lambda one: one[:, 1:]),
        ("GPTQ", "scales", lambda one: one[:1]),
        ("GPTQ", "scales", lambda one: one.view(torch.int16)),
        ("GPTQ", "qweight", lambda one: one[:-1]),
        ("GPTQ", "qweight", lambda one: one.flatten()),
        ("GPTQ", "qweight", lambda one: one.float()),
        ("GPTQ", "qzeros", lambda one: one[:, :1]),
        ("GPTQ", "g_idx", lambda one: one[1:]),
        ("AWQ", "qweight", lambda one: one.long()),
        ("AWQ", "qweight", lambda one: one[0]),
        ("AWQ", "qzeros", None),
        ("AWQ", "scales", lambda one: one[:-1]),
        ("compressed-tensors", "weight_shape", lambda one: one + 1),
        ("compressed-tensors", "weight_shape", lambda one: one.float()[:, None]),
        ("compressed-tensors", "weight_scale", lambda one: one[0]),
        ("compressed-tensors", "weight_packed", lambda one: one[:, 1:]),
        ("compressed-tensors, zero points", "weight_zero_point", lambda one: one[1:]),
        ("compressed-tensors, zero points", "weight_zero_point", None),
        ("compressed-tensors, plain", "weight", lambda one: one.to(torch.int16)),
        ("compressed-tensors, plain", "weight", lambda one: one[0]),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused_by_name(scheme, part, change, folder):
    quantised(folder, scheme)
    name = f"{DOWN}.{part}"
    stored = load_file(folder / "model.safetensors")[name]
    changed(folder, **{name: change and change(stored)})
    with pytest.raises(ArtefactError, match=r"model.layers.1.mlp.down_proj|layers\.1\.mlp\.down_proj"):
        imported(folder)


def test_biases_of_nothing_but_zeros_are_left_out_and_others_are_refused(folder):
    plain, matrices = quantised(folder, "GPTQ")
    changed(folder, **{f"{module}.bias": torch.zeros(len(matrix.levels)) for module, matrix in matrices.items()})
    assert_same(imported(folder), LlamaForCausalLM, plain, causal())
    changed(folder, **{f"{DOWN}.bias": torch.ones(64)})
    with pytest.raises(ArtefactError, match=r"down_proj\.bias"):
        imported(folder)


def test_biases_of_zeros_that_the_model_has_are_kept(tmp_path):
    folder = qwen2(tmp_path / "theirs")
    plain, _ = quantised(folder, "GPTQ")
    zeros = {
        name: torch.zeros_like(one) for name, one in load_file(plain / "model.safetensors").items() if "bias" in name
    }
    for place in (folder, plain):
        save_file({**load_file(place / "model.safetensors"), **zeros}, place / "model.safetensors", {"format": "pt"})
    assert_same(imported(folder), Qwen2ForCausalLM, plain, causal(), indifferent=("attention.key.bias",))


@pytest.mark.parametrize(("scheme", "name"), [("GPTQ", "quantize_config.json"), ("AWQ", "quant_config.json")])
def test_the_scheme_may_stand_in_a_file_of_its_own(scheme, name, folder):
    plain, _ = quantised(folder, scheme)
    config = {key: value for key, value in SCHEMES[scheme][4].items() if key != "quant_method"}
    if scheme == "AWQ":
        config = {"w_bit": 4, "q_group_size": 32, "zero_point": True, "version": "GEMM"}
    rewrite(folder / "config.json", quantization_config=GONE)
    write(folder / name, **config)
    assert_same(imported(folder), LlamaForCausalLM, plain, causal())


def test_a_matrix_that_is_there_twice_is_refused(folder):
    quantised(folder, "GPTQ")
    changed(folder, **{f"{DOWN}.weight": torch.ones(64, 128)})
    with pytest.raises(ArtefactError, match=r"down_proj\.weight once"):
        imported(folder)


def test_a_scale_that_is_no_number_is_the_checkpoints_own_fault(folder):
    quantised(folder, "GPTQ")
    changed(folder, **{f"{DOWN}.scales": load_file(folder / "model.safetensors")[f"{DOWN}.scales"] * float("nan")})
    with pytest.raises(ArtefactError, match=r"finite numbers in model\.layers\.1\.mlp\.down_proj\.weight"):
        imported(folder)


@pytest.mark.parametrize(("group", "found"), [(8, "blocks of 8 numbers"), (48, "which do not divide a row of 64")])
def test_groups_that_no_graph_can_have_are_refused_by_name(group, found, folder):
    quantised(folder, "GPTQ")
    rewrite(folder / "config.json", quantization_config={**SCHEMES["GPTQ"][4], "group_size": group})
    tensors = load_file(folder / "model.safetensors")
    wide, order = {}, {}
    for name, one in tensors.items():
        if name.endswith(("scales", "zeros")):
            wide[name] = one.repeat_interleave(32 // group or 1, 0)
        elif name.endswith("g_idx"):
            order[name] = torch.arange(len(one), dtype=torch.int32) // group
    changed(folder, **wide, **order)
    with pytest.raises(ConfigError, match=found):
        imported(folder)
