"""Learning rates step by step, beside those that torchtune 0.6.1 gave for the same arguments."""

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.training.lr_schedulers import get_cosine_schedule_with_warmup, get_lr

# Arguments -> the rates of the steps, base rate 3e-4, as torchtune 0.6.1 sets them.
TORCHTUNE = [
    (
        {"num_warmup_steps": 3, "num_training_steps": 10},
        [0.0, 9.999999999999999e-05, 0.00019999999999999998, 0.0003, 0.0002851453301853628, 0.00024352347027881003,
         0.00018337814009344714, 0.00011662185990655284, 5.6476529721189974e-05, 1.4854669814637143e-05, 0.0,
         1.4854669814637127e-05, 5.647652972118994e-05],
    ),
    (
        {"num_warmup_steps": 0, "num_training_steps": 5},
        [0.0003, 0.0002713525491562421, 0.0001963525491562421, 0.0001036474508437579, 2.8647450843757897e-05, 0.0],
    ),
    (
        {"num_warmup_steps": 2, "num_training_steps": 9, "num_cycles": 1.5},
        [0.0, 0.00015, 0.0003, 0.00018337814009344714, 1.4854669814637143e-05, 5.647652972118994e-05,
         0.00024352347027880997, 0.0002851453301853629, 0.00011662185990655287, 0.0],
    ),
    ({"num_warmup_steps": 4, "num_training_steps": 2}, [0.0, 7.5e-05, 0.00015, 0.000225, 0.0003, 0.0]),
]  # fmt: skip


def optimizer(*rates: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates])


@pytest.mark.parametrize(("arguments", "expected"), TORCHTUNE)
def test_every_rate_is_torchtunes(arguments: dict[str, float], expected: list[float]) -> None:
    trained = optimizer(3e-4)
    schedule = get_cosine_schedule_with_warmup(trained, **arguments)  # pyright: ignore[reportArgumentType]
    rates = []
    for _ in expected:
        rates.append(get_lr(trained))
        trained.step()
        schedule.step()
    assert rates == expected


def test_a_schedule_that_takes_the_state_of_another_goes_on_with_its_rates() -> None:
    arguments, expected = TORCHTUNE[0]
    first, second = optimizer(3e-4), optimizer(3e-4)
    schedule = get_cosine_schedule_with_warmup(first, **arguments)  # pyright: ignore[reportArgumentType]
    for _ in range(5):
        first.step()
        schedule.step()
    again = get_cosine_schedule_with_warmup(second, **arguments)  # pyright: ignore[reportArgumentType]
    second.load_state_dict(first.state_dict())
    again.load_state_dict(schedule.state_dict())
    rates = []
    for _ in range(5, len(expected)):
        rates.append(get_lr(second))
        second.step()
        again.step()
    assert rates == expected[5:]


def test_a_number_of_steps_below_0_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^num_warmup_steps is -1\. Give 0 or more\.$"):
        get_cosine_schedule_with_warmup(optimizer(0.1), num_warmup_steps=-1, num_training_steps=5)


def test_one_rate_is_read_of_groups_that_share_it() -> None:
    assert get_lr(optimizer(0.1, 0.1)) == 0.1


def test_groups_of_several_rates_have_no_single_one() -> None:
    with pytest.raises(ConfigError, match=r"parameter groups have the learning rates 0\.1, 0\.2\. One number can't"):
        get_lr(optimizer(0.1, 0.2, 0.1))
