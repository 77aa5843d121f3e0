import torch

from models.layers.embedding import TiedEmbedding
from tests.models.agreement import EXACT, difference

VOCABULARY, WIDTH = 7, 4


def test_a_token_is_its_row_of_the_matrix_times_the_root_of_the_width():
    embedding = TiedEmbedding(VOCABULARY, WIDTH)
    tokens = torch.tensor([[0, 6], [3, 3]])
    assert torch.equal(embedding(tokens), 2.0 * embedding.weight[tokens])  # a factor of two rounds nothing


def test_logits_are_unscaled_products_with_every_row_of_the_matrix():
    embedding = TiedEmbedding(VOCABULARY, WIDTH).double()
    hidden = torch.randn(2, 3, WIDTH, generator=torch.Generator().manual_seed(0)).double()
    by_hand = torch.stack([(hidden * row).sum(-1) for row in embedding.weight], dim=-1)
    assert difference(embedding.logits(hidden), by_hand) <= EXACT


def test_tokens_and_logits_read_one_and_the_same_storage():
    embedding = TiedEmbedding(VOCABULARY, WIDTH)
    (matrix,) = embedding.parameters()
    assert matrix.shape == (VOCABULARY, WIDTH)
    with torch.no_grad():
        matrix[5] = 1.0
    assert embedding(torch.tensor([[5]])).tolist() == [[[2.0] * WIDTH]]
    assert embedding.logits(torch.ones(1, 1, WIDTH))[0, 0, 5] == WIDTH


def test_both_uses_of_the_matrix_train_it():
    embedding = TiedEmbedding(VOCABULARY, WIDTH)
    embedding(torch.tensor([[5]])).sum().backward()
    assert embedding.weight.grad.abs().sum(1).nonzero().flatten().tolist() == [5]
    embedding.logits(torch.ones(1, 1, WIDTH)).sum().backward()
    assert embedding.weight.grad.abs().sum(1).nonzero().flatten().tolist() == list(range(VOCABULARY))


def test_scaled_tokens_begin_with_unit_variance():
    torch.manual_seed(0)
    embedding = TiedEmbedding(200, 64)
    assert abs(embedding(torch.arange(200)[None]).std().item() - 1) < 0.03
