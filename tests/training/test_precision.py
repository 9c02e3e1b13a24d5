import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.training.precision import get_dtype, set_default_dtype, training_dtype, validate_expected_param_dtype

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (None, torch.float32),
        ("fp32", torch.float32),
        ("bf16", torch.bfloat16),
        ("fp16", torch.float16),
        ("fp64", torch.float64),
        (torch.bfloat16, torch.bfloat16),
    ],
)
def test_a_word_names_the_type_that_it_names_in_torchtune(word: str | None, expected: torch.dtype) -> None:
    assert get_dtype(word, CPU) is expected


def test_a_wrong_word_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"dtype is 'bf61'\. It can be .*\. Did you mean 'bf16'\?"):
        get_dtype("bf61", CPU)
    with pytest.raises(ConfigError, match=r"dtype is torch\.int8\. It can be"):
        get_dtype(torch.int8, CPU)


def test_bfloat16_on_a_device_without_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"dtype is bf16, and this cuda computes no bfloat16\. Set dtype=fp32\."):
        get_dtype("bf16", torch.device("cuda"))


def test_training_in_float16_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"dtype is fp16, in which small gradients become 0.* Set dtype=bf16 or"):
        training_dtype("fp16", CPU)
    assert training_dtype("bf16", CPU) is torch.bfloat16


def test_the_default_type_is_put_back_after_an_error_too() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), set_default_dtype(torch.bfloat16):
        nn.Linear(2, 2)(torch.ones(3))
    with set_default_dtype(torch.bfloat16):
        assert nn.Linear(2, 2).weight.dtype is torch.bfloat16
    assert torch.get_default_dtype() is torch.float32


def test_a_parameter_of_another_type_is_named() -> None:
    model = nn.ModuleDict({"base": nn.Linear(2, 2).bfloat16(), "lora_a": nn.Linear(2, 2)})
    with pytest.raises(ConfigError, match=r"^Parameter lora_a\.weight is torch\.float32, and torch\.bfloat16 was"):
        validate_expected_param_dtype(model.named_parameters(), torch.bfloat16)
    validate_expected_param_dtype(model.named_parameters(), torch.bfloat16, exclude_param_names=["lora_a"])
