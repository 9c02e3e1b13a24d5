"""The model of a run: fresh, or with loaded weights and no second copy of them."""

from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.models.llama3_2 import lora_llama3_2
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import TransformerDecoder
from torchpipe.training import build_model, describe_parameters, set_seed

CPU = torch.device("cpu")


class Ones:
    """A checkpointer whose base weights are ones."""

    def __init__(self) -> None:
        self.tokenizer: Any = None

    def load(self, model: TransformerDecoder, *, tokenizer: Any = None) -> None:
        self.tokenizer = tokenizer
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora" not in name:
                    parameter.fill_(1)


def lora() -> TransformerDecoder:
    return lora_llama3_2(
        ["q_proj", "v_proj"],
        vocab_size=50,
        num_layers=2,
        num_heads=2,
        num_kv_heads=1,
        embed_dim=8,
        max_seq_len=16,
        lora_rank=2,
        lora_alpha=4,
    )


def test_fresh_weights_are_those_of_the_builder() -> None:
    set_seed(1)
    expected = tiny_llama3(num_layers=1).state_dict()
    set_seed(1)
    got = build_model(lambda: tiny_llama3(num_layers=1), device=CPU).state_dict()
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_it_is_built_in_the_type_and_the_default_is_put_back() -> None:
    model = build_model(tiny_llama3, device=CPU, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert torch.get_default_dtype() == torch.float32


def test_loaded_weights_leave_nothing_unset() -> None:
    """Adapters begin as fresh ones, positions are there, and the model gives numbers."""
    weights = Ones()
    model = build_model(lora, device=CPU, dtype=torch.bfloat16, weights=weights, tokenizer="the tokenizer")
    assert weights.tokenizer == "the tokenizer"
    assert not any(parameter.is_meta for parameter in [*model.parameters(), *model.buffers()])
    state = model.state_dict()
    assert all(bool((tensor == 1).all()) for name, tensor in state.items() if "lora" not in name)
    assert all(not tensor.any() for name, tensor in state.items() if "lora_b" in name)
    assert all(0 < tensor.abs().max() < 1 for name, tensor in state.items() if "lora_a" in name)
    assert model(torch.tensor([[1, 2, 3]])).isfinite().all()


def test_adapters_of_one_seed_are_the_same() -> None:
    states = []
    for _ in range(2):
        set_seed(3)
        states.append(build_model(lora, device=CPU, weights=Ones()).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (nn.Linear(3, 2), "model: 8 parameters, all trained, torch.float32"),
        (nn.Linear(3, 2).requires_grad_(False), "model: 8 parameters, 0 of them trained (0.00%), torch.float32"),
    ],
)
def test_the_line_says_what_is_trained(model: nn.Module, line: str) -> None:
    assert describe_parameters(model) == line
