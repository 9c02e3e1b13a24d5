"""A recipe's table of keys: defaults, names and numbers."""

import pytest
from omegaconf import OmegaConf

from torchpipe.config import Setting, read_settings
from torchpipe.errors import ConfigError

TABLE = {
    "model": Setting(),
    "batch_size": Setting(8, at_least=1),
    "max_steps": Setting(None, at_least=1, can_be_null=True),
    "device": Setting("cpu"),
    "clip": Setting(None, above=0, can_be_null=True),
    "resume": Setting(False),
}


def test_defaults_are_filled_in_and_the_config_is_left_alone() -> None:
    cfg = OmegaConf.create({"model": "m", "max_steps": 3})
    assert read_settings(cfg, TABLE) == {
        "model": "m",
        "max_steps": 3,
        "batch_size": 8,
        "device": "cpu",
        "clip": None,
        "resume": False,
    }
    assert "device" not in cfg


@pytest.mark.parametrize(
    ("cfg", "sentence"),
    [
        ({"model": "m", "batchsize": 3}, "'batchsize' is not a key of this recipe. Did you mean 'batch_size'"),
        ({}, "The config has no 'model', which the recipe needs"),
        ({"model": "???"}, "model is still to be given: write it into the file, or model=... on the command line"),
        ({"model": "m", "batch_size": 0}, "batch_size is 0. Give a whole number, 1 or more."),
        ({"model": "m", "batch_size": True}, "batch_size is True"),
        ({"model": "m", "batch_size": None}, "batch_size is None"),
        ({"model": "m", "clip": 0}, "clip is 0. Give a number above 0, or null to do without"),
        ({"model": "m", "clip": True}, "clip is True"),
        ({"model": "m", "clip": "x"}, "clip is 'x'"),
        ({"model": "m", "resume": "flase"}, "resume is 'flase'. Give true or false."),
        ({"model": "m", "resume": 1}, "resume is 1. Give true or false."),
        ({"model": "m", "max_steps": "x"}, "max_steps is 'x'. Give a whole number, 1 or more, or null to do without"),
    ],
)
def test_what_cannot_work_is_refused_by_name(cfg: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_settings(OmegaConf.create(cfg), TABLE)


@pytest.mark.parametrize("value", [1, 0.5, float("inf"), "inf", None])
def test_a_number_may_be_whole_or_not_and_without_end(value: object) -> None:
    assert read_settings(OmegaConf.create({"model": "m", "clip": value}), TABLE).clip == value


@pytest.mark.parametrize("value", [True, False, None])
def test_a_switch_is_true_false_or_null(value: object) -> None:
    assert read_settings(OmegaConf.create({"model": "m", "resume": value}), TABLE).resume is value
