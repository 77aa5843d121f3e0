import pytest
import torch

from models.presets import PRESETS
from models.tasks.embed import GRAPHS
from tests.models.agreement import difference
from tests.models.checkpoints.folders import tiny_checkpoint

CONFIG = PRESETS["bert-tiny"].config


def test_the_server_is_told_the_longest_sequence_and_the_padding():
    assert GRAPHS.details(CONFIG) == {"max_length": 12, "pad_token": 0}


@pytest.mark.planted
def test_the_one_graph_takes_what_the_model_takes_in_the_same_order():
    model = tiny_checkpoint("bert-tiny").model
    (graph,) = GRAPHS.build(model)
    token_ids = torch.tensor([[3, 4, 5], [6, 7, 0]])
    token_types = torch.tensor([[0, 1, 1], [1, 0, 0]])
    inputs = {"token_ids": token_ids, "mask": token_ids > 0, "token_types": token_types}
    hidden, pooled = graph.module(*(inputs[spec.name] for spec in graph.signature.inputs))
    wanted_hidden, wanted_pooled = model(**inputs)
    assert [spec.name for spec in graph.signature.outputs] == ["hidden", "pooled"]
    assert torch.equal(hidden, wanted_hidden)  # the same computation twice, in one process
    assert torch.equal(pooled, wanted_pooled)  # the same computation twice, in one process
    swapped, _ = graph.module(token_types, token_ids > 0, token_ids.clamp(max=1))
    assert difference(swapped, hidden) > 1e-3


def test_a_sequence_is_as_long_as_the_position_table():
    (graph,) = GRAPHS.build(tiny_checkpoint("bert-tiny").model)
    assert graph.largest == {"tokens": CONFIG.max_length}
