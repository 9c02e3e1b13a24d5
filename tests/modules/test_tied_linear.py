import copy
import pickle

import torch
from torch import nn

from torchpipe.modules import TiedLinear


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.output = TiedLinear(self.embedding)


def test_it_multiplies_by_the_other_modules_weight():
    model = Tied()
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(model.output(x), x @ model.embedding.weight.T)


def test_the_weight_is_counted_and_saved_once():
    model = Tied()
    assert sum(parameter.numel() for parameter in model.parameters()) == 40
    assert list(model.state_dict()) == ["embedding.weight"]


def test_gradients_reach_the_embedding_from_both_sides():
    model = Tied()
    model.output(model.embedding(torch.tensor([3]))).sum().backward()
    grad = model.embedding.weight.grad
    assert grad is not None
    assert bool((grad[7] != 0).any())  # from the projection
    assert not torch.equal(grad[3], grad[7])  # and from the lookup


def test_copies_pickles_and_to_empty_keep_the_two_together():
    model = Tied()
    with torch.device("meta"):
        on_meta = Tied()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), on_meta.to_empty(device="cpu")):
        assert other.output.weight is other.embedding.weight
        assert other.embedding is not model.embedding
