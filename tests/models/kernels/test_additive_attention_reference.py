import pytest
import torch

from models.kernels.additive_attention_reference import additive_attention_reference
from models.layers.additive_attention import AdditiveAttention
from tests.models.agreement import difference, randomised


@pytest.mark.planted
def test_the_reference_equals_the_layer_of_bahdanau():
    layer = randomised(AdditiveAttention(state_width=5, annotation_width=6, width=7), torch.float64)
    generator = torch.Generator().manual_seed(0)
    state, annotations = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((3, 5), (3, 4, 6)))
    mask = torch.tensor([[True, True, False, True], [True, False, False, False], [False] * 4])
    keys = layer.keys(annotations)
    found = additive_attention_reference(layer.query(state), keys, layer.score.weight[0], annotations, mask)
    for ours, wanted in zip(found, layer(state, annotations, keys, mask), strict=True):
        assert difference(ours, wanted) < 1e-12
    assert difference(found[1], layer(state, annotations, keys, mask | True)[1]) > 1e-2
