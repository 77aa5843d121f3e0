"""The folders of our tests are those of the format's own package: read by it, they are the same numbers."""

import pytest
import torch
from transformers import CompressedTensorsConfig, LlamaForCausalLM

from models.checkpoints.store import load_checkpoint
from tests.models.checkpoints.importers.quantised.packed import SCHEMES, llama, quantised
from tests.models.checkpoints.importers.saved import imported

OURS = {"self_attn.q_proj": "attention.query", "mlp.down_proj": "mlp.contract"}


@pytest.mark.filterwarnings("ignore:You passed `quantization_config`")
@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name.startswith("compressed-tensors")])
def test_the_package_reads_the_numbers_that_we_import_rounded_to_the_type_of_its_scales(scheme, tmp_path):
    folder = llama(tmp_path / "theirs")
    _, matrices = quantised(folder, scheme)
    whole = CompressedTensorsConfig(dequantize=True)
    theirs = LlamaForCausalLM.from_pretrained(folder, quantization_config=whole, dtype=torch.float32).state_dict()
    ours = load_checkpoint(imported(folder).folder).model.state_dict()
    for module, matrix in matrices.items():
        read = theirs[f"{module}.weight"]
        assert torch.equal(read, matrix.dequantised().half().float())
    for layer in range(2):
        for their_name, our_name in OURS.items():
            read = theirs[f"model.layers.{layer}.{their_name}.weight"]
            assert torch.equal(read, ours[f"blocks.{layer}.{our_name}.weight"].half().float())
