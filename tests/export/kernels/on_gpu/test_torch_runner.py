"""Whole models on the torch runner of a GPU, with CUDA graphs: our kernels of attention beside torch's own."""

import pytest
import torch

from models.layers.attend import attend_in_groups
from tests.export.kernels.whole_models import decoded, runners, worst

pytestmark = [
    pytest.mark.needs_gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@pytest.mark.parametrize("preset", ["llama-tiny", "gpt2-tiny", "mistral-tiny"])
def test_decoding_is_the_same_by_both(preset):
    from serving.runtime.torch_attention import fused_attention

    device = torch.device("cuda")
    made = [runners(preset, attention, device=device) for attention in (fused_attention(device), attend_in_groups)]
    found, wanted = (decoded(one["decoder"]) for one in made)
    assert worst(found, wanted) < 1e-3  # torch's products of float32 may be TF32
    assert len(made[0]["decoder"].recordings) == 1
