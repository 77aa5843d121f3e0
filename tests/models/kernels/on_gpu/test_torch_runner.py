"""Whole models on the torch runner of a GPU, with CUDA graphs: our kernels of attention beside torch's own."""

import numpy as np
import pytest
import torch

from models.layers.attend import attend_in_groups
from tests.models.kernels.whole_models import decoded, recurrent_steps, runners, worst

pytestmark = [
    pytest.mark.needs_gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@pytest.mark.parametrize("preset", ["llama-tiny", "gpt2-tiny", "mistral-tiny"])
def test_decoding_is_the_same_by_both(preset):
    from serving.runtime.torch.attention import fused_attention

    device = torch.device("cuda")
    made = [runners(preset, attention, device=device) for attention in (fused_attention(device), attend_in_groups)]
    found, wanted = (decoded(one["decoder"]) for one in made)
    assert worst(found, wanted) < 1e-3  # torch's products of float32 may be TF32
    assert len(made[0]["decoder"].recordings) == 1


@pytest.mark.parametrize("preset", ["vit-tiny", "swin-tiny", "swin-v2-tiny", "timesformer-tiny", "tnt-tiny"])
def test_images_are_classified_the_same_by_both(preset):
    from serving.runtime.torch.attention import fused_attention

    device, found = torch.device("cuda"), []
    for attention in (fused_attention(device), attend_in_groups):
        runner = runners(preset, attention, device=device)["model"]
        pixels = np.random.default_rng(0).normal(size=runner.signature.inputs[0].shape({"batch": 2}))
        found.append([runner.run({"pixels": pixels.astype(np.float32)})["logits"].numpy()])
    assert worst(*found) < 1e-3


@pytest.mark.parametrize("preset", ["gru-seq2seq-tiny", "lstm-seq2seq-tiny"])
def test_recurrent_decoders_step_the_same_by_both(preset):
    from serving.runtime.torch.attention import fused_attention

    device = torch.device("cuda")
    both = (fused_attention(device), attend_in_groups)
    assert worst(*(recurrent_steps(preset, attention, device=device) for attention in both)) < 1e-3
