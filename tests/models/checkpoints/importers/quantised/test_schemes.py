import pytest

from attendant.errors import ConfigError
from models.checkpoints.importers.quantised.schemes import scheme_of, without_scheme
from tests.models.checkpoints.importers.quantised.packed import awq_config, compressed_config, gptq_config


def test_weights_in_floating_point_have_no_scheme():
    assert scheme_of({"model_type": "llama", "quantization_config": None}) is None


@pytest.mark.parametrize(
    ("config", "name"),
    [(gptq_config(), "GPTQ"), (awq_config(), "AWQ"), (compressed_config(), "compressed-tensors")],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_scheme_is_found_in_either_place(config, name):
    assert scheme_of({"quantization_config": config}).name == name
    assert scheme_of({"compression_config": config}).name == name
    assert without_scheme({"quantization_config": config, "compression_config": 1, "model_type": "x"}) == {
        "model_type": "x"
    }


def test_compressed_tensors_need_no_method():
    config = compressed_config()
    del config["quant_method"]
    assert scheme_of({"compression_config": config}).name == "compressed-tensors"


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "integers or NF4 of bitsandbytes: 'bitsandbytes'"),
        ({"quant_method": "fp8"}, "fine-grained FP8: 'fp8'"),
        ({"quant_method": ["x"]}, "['x']"),
        ({"load_in_4bit": True}, "load_in_4bit"),
        ([4], "[4]"),
        ("gptq", "'gptq'"),
        (gptq_config(bits=3), "GPTQ: bits 3"),
        (gptq_config(bits=4.0), "GPTQ: bits 4.0"),
        (gptq_config(bits=None), "GPTQ: bits None"),
        (gptq_config(group="many"), "GPTQ: group_size 'many'"),
        (gptq_config(group=0), "GPTQ: group_size 0"),
        (gptq_config(checkpoint_format="marlin"), "GPTQ: checkpoint_format 'marlin'"),
        (awq_config(bits=3), "AWQ: bits 3"),
        (awq_config(version="gemv"), "AWQ: version 'gemv', whose words have another order than gemm's"),
        (awq_config(version=["gemm"]), "AWQ: version ['gemm']"),
        (compressed_config(3), "compressed-tensors: pack-quantized of 3 bits"),
        (compressed_config(4, form="int-quantized"), "compressed-tensors: int-quantized of 4 bits"),
        (compressed_config(8, form="float-quantized"), "compressed-tensors: format 'float-quantized'"),
        (compressed_config(8, form="marlin-24"), "compressed-tensors: format 'marlin-24'"),
        (compressed_config(8, type="float"), "compressed-tensors: weights of type 'float'"),
        (compressed_config(8, strategy="block"), "compressed-tensors: the strategy 'block'"),
        ({**compressed_config(), "config_groups": {"a": {}, "b": {}}}, "compressed-tensors: 2 config_groups, not one"),
        ({**compressed_config(), "config_groups": None}, "compressed-tensors: no config_groups"),
        ({**compressed_config(), "config_groups": {"a": {"weights": 4}}}, "compressed-tensors: weights of type 4"),
        ({**compressed_config(), "kv_cache_scheme": {"num_bits": 8}}, "compressed-tensors: kv_cache_scheme"),
        ({**compressed_config(), "sparsity_config": {"format": "sparse-24-bitmask"}}, "a sparsity_config"),
        ({**compressed_config(), "transform_config": {"R1": 1}}, "compressed-tensors: transform_config"),
    ],
    ids=str,
)
def test_what_has_another_arithmetic_is_refused_by_name_before_any_work(config, found):
    with pytest.raises(ConfigError) as caught:
        scheme_of({"quantization_config": config})
    assert found in caught.value.found
    assert "GPTQ (4 or 8 bits), AWQ (4), compressed-tensors (4 or 8) or GGUF" in caught.value.expected
    assert "import the model's unquantised checkpoint" in caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "found"),
    [({"dynamic": {"+:lm_head": {"bits": 8}}}, "dynamic"), ({"pack_dtype": "int64"}, "int64"), ({"new": 1}, "new: 1")],
    ids=str,
)
def test_a_field_of_unknown_effect_is_refused(changes, found):
    with pytest.raises(ConfigError, match=found):
        scheme_of({"quantization_config": gptq_config(**changes)})


def activations(**changes):
    given = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True, "symmetric": True, **changes}
    config = compressed_config(8, -1, "int-quantized")
    config["config_groups"]["group_0"]["input_activations"] = given
    return config


def test_activations_of_8_bits_are_taken_as_int8_has_them_and_said_to_be():
    assert "as those of --precision int8 are" in scheme_of({"quantization_config": activations()}).note


@pytest.mark.parametrize(
    "changes", [{"num_bits": 4}, {"dynamic": False}, {"strategy": "tensor"}, {"symmetric": False}, {"type": "float"}]
)
def test_activations_of_another_arithmetic_are_refused(changes):
    with pytest.raises(ConfigError, match="quantised activations"):
        scheme_of({"quantization_config": activations(**changes)})
