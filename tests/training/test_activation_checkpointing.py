"""Layers that are computed twice give the same numbers, and keep less."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import LinearCrossEntropyLoss, TransformerDecoder, TransformerSelfAttentionLayer
from torchpipe.training import set_activation_checkpointing

VOCAB_SIZE, EMBED_DIM = 64, 128
LAYERS = {TransformerSelfAttentionLayer}


def decoder(*, dropout: float = 0.0) -> TransformerDecoder:
    torch.manual_seed(0)
    model = tiny_llama3(vocab_size=VOCAB_SIZE, max_seq_len=64, embed_dim=EMBED_DIM)
    for layer in model.layers:
        assert isinstance(layer, TransformerSelfAttentionLayer)
        layer.mlp = nn.Sequential(layer.mlp, nn.Dropout(dropout))
    return model


def trained(model: nn.Module) -> tuple[float, dict[str, torch.Tensor], int]:
    """The loss, the gradients, and the bytes that the graph holds beside the parameters."""
    generator = torch.Generator().manual_seed(1)
    tokens, labels = (torch.randint(0, VOCAB_SIZE, (2, 64), generator=generator) for _ in range(2))
    loss_fn = LinearCrossEntropyLoss()
    loss_fn.set_model_output(model)
    parameters = {parameter.data_ptr() for parameter in model.parameters()}
    held: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in parameters:
            held[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(7)  # of dropout
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = loss_fn(model(tokens), labels)
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, sum(held.values())


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("frozen", [False, True], ids=["all trained", "embeddings frozen"])
def test_loss_and_gradients_stay_the_same_to_the_bit_and_the_graph_holds_less(dropout: float, frozen: bool) -> None:
    plain = decoder(dropout=dropout)
    if frozen:
        plain.tok_embeddings.requires_grad_(False)
    checkpointed = copy.deepcopy(plain)
    set_activation_checkpointing(checkpointed, LAYERS)
    loss, gradients, held = trained(plain)
    again, same, less = trained(checkpointed)
    assert again == loss
    assert same.keys() == gradients.keys()
    assert all(torch.equal(same[name], gradients[name]) for name in gradients)
    # What is left are the embeddings' and the last norm's; of a layer only its input stays, which these don't count.
    inputs = len(plain.layers) * 2 * 64 * EMBED_DIM * 4
    assert less + inputs < held / 4


def test_parameters_keep_their_names_and_the_state_its_keys() -> None:
    plain, checkpointed = decoder(), decoder()
    set_activation_checkpointing(checkpointed, LAYERS)
    assert [name for name, _ in checkpointed.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert list(checkpointed.state_dict()) == list(plain.state_dict())
    checkpointed.load_state_dict(plain.state_dict())


def test_a_copy_of_a_model_computes_with_its_own_weights() -> None:
    model = decoder()
    set_activation_checkpointing(model, LAYERS)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
        tokens = torch.ones(1, 4, dtype=torch.int64)
        assert other(tokens).abs().max() == 0
        assert model(tokens).abs().max() > 0


class Counted(nn.Linear):
    """Counts how often it is computed."""

    num_computed = 0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self.num_computed += 1
        return super().forward(input)


def test_nothing_is_computed_twice_without_gradients() -> None:
    counted = Counted(2, 2)
    model = nn.Sequential(counted, nn.ReLU())
    set_activation_checkpointing(model, {Counted})
    with torch.no_grad():
        model(torch.ones(1, 2))
    assert counted.num_computed == 1
    model(torch.ones(1, 2)).sum().backward()
    assert counted.num_computed == 3


def test_a_policy_as_torchs_fsdp_takes_it_chooses_the_modules() -> None:
    asked: list[tuple[str, bool, int]] = []

    def policy(module: nn.Module, recurse: bool, nonwrapped_numel: int) -> bool:
        asked.append((type(module).__name__, recurse, nonwrapped_numel))
        return recurse or isinstance(module, nn.Linear) or (isinstance(module, nn.Sequential) and nonwrapped_numel > 0)

    linear = nn.Linear(2, 2)
    model = nn.Sequential(nn.Sequential(linear, nn.LayerNorm(2)), nn.ReLU())
    set_activation_checkpointing(model, policy)
    assert asked == [
        ("Sequential", True, 10),
        ("Sequential", True, 10),
        ("Linear", True, 6),
        ("Linear", False, 6),
        ("LayerNorm", True, 4),
        ("LayerNorm", False, 4),
        ("Sequential", False, 4),  # what its linear layer has is taken already
        ("ReLU", True, 0),
        ("ReLU", False, 0),
    ]
    model(torch.ones(1, 2)).sum().backward()
    assert linear.weight.grad is not None


def test_options_go_to_torchs_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def spy(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        given.append(options)
        return function(*args)

    monkeypatch.setattr("torchpipe.training.activation_checkpointing.checkpoint", spy)
    model = nn.Sequential(nn.Linear(2, 2))
    set_activation_checkpointing(model, {nn.Linear}, preserve_rng_state=False)
    model(torch.ones(1, 2))
    assert given == [{"use_reentrant": False, "preserve_rng_state": False}]


def test_types_that_no_module_has_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"takes \['LayerNorm'\], and Sequential has no such module\."):
        set_activation_checkpointing(nn.Sequential(nn.Linear(2, 2)), {nn.LayerNorm})
