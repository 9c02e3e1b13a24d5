"""Layers are compiled in place."""

import pytest
import torch

from torchpipe.models.tiny import tiny_llama3
from torchpipe.training import compile_layers


# What torch's compiler does with its own tensors and functions.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_a_compiled_model_gives_the_same_numbers_under_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_COMPILE_BACKEND", "eager")
    model = tiny_llama3(50, num_layers=1, embed_dim=16, intermediate_dim=16, max_seq_len=8)
    names, tokens = list(model.state_dict()), torch.tensor([[1, 2, 3]])
    expected = model(tokens)
    compile_layers(model)
    assert list(model.state_dict()) == names
    torch.testing.assert_close(model(tokens), expected)
