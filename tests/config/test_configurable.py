import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from torchpipe.config import ConfigError, Configurable, InstantiationError, instantiate, validate

Write = Callable[[str, str], Path]


class Lines(Configurable):
    @dataclass(frozen=True, kw_only=True)
    class Config(Configurable.Config):
        path: str
        kept: tuple[int, ...] = (1, 2)

    def __init__(self, config: Config, *, seed: int = 0) -> None:
        self.config, self.seed = config, seed


class Shouted(Lines):
    pass


class Pair(Configurable):
    @dataclass(frozen=True, kw_only=True)
    class Config(Configurable.Config):
        first: Configurable.Config
        hook: Callable[..., Any] | None = None


SOURCE = """
from dataclasses import dataclass
from torchpipe.config import Configurable

class Rows(Configurable):
    @dataclass(frozen=True, kw_only=True)
    class Config(Configurable.Config):
        path: str
        limit: int = 3
    def __init__(self, config: Config, *, suffix: str = ''):
        self.rows = [config.path + suffix] * config.limit
    def __len__(self): return len(self.rows)
    def __getitem__(self, index): return self.rows[index]

def dataset(tokenizer, source: Rows.Config):
    return source.build(suffix='!')
"""


def test_a_config_builds_its_class_with_what_is_known_at_run_time() -> None:
    config = Lines.Config(path="a")
    lines = config.build(seed=3)
    assert (type(lines), lines.config, lines.seed) == (Lines, config, 3)


def test_a_config_is_a_value() -> None:
    assert Lines.Config(path="a") == Lines.Config(path="a")
    assert hash(Lines.Config(path="a")) == hash(Lines.Config(path="a"))
    with pytest.raises(FrozenInstanceError):
        Lines.Config(path="a").path = "b"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_subclass_without_a_config_gets_one_that_builds_it() -> None:
    assert type(Shouted.Config(path="a").build()) is Shouted
    assert type(Lines.Config(path="a").build()) is Lines


def test_configs_can_be_pickled() -> None:
    for config in (Lines.Config(path="a"), Shouted.Config(path="b")):
        assert pickle.loads(pickle.dumps(config)) == config


def test_a_borrowed_config_still_builds_its_first_class() -> None:
    class Borrower(Configurable):
        Config = Lines.Config

        def __init__(self, config: Any) -> None:
            self.config = config

    assert type(Borrower.Config(path="a").build()) is Borrower  # pyright: ignore[reportCallIssue]
    assert type(Lines.Config(path="a").build()) is Lines


def test_a_class_without_its_own_init_keeps_its_config_and_takes_nothing_else() -> None:
    pair = Pair.Config(first=Lines.Config(path="a")).build()
    assert pair.config.first.path == "a"
    with pytest.raises(TypeError, match="Pair takes no seed"):
        Pair.Config(first=Lines.Config(path="a")).build(seed=1)


def test_a_config_as_dicts() -> None:
    config = Pair.Config(first=Lines.Config(path="a"), hook=instantiate)
    assert config.to_dict() == {
        "first": {"path": "a", "kept": [1, 2]},
        "hook": "torchpipe.config.instantiate.instantiate",
    }


def test_a_config_must_be_a_frozen_keyword_only_dataclass() -> None:
    with pytest.raises(ConfigError, match=r"isn't decorated as a dataclass\. Write it as @dataclass\(frozen=True"):

        class Bare(Configurable):
            class Config(Configurable.Config):
                x: int = 0

    with pytest.raises(ConfigError, match=r"Config must be frozen and keyword-only"):

        class Positional(Configurable):
            @dataclass(frozen=True)
            class Config(Configurable.Config):
                x: int = 0

    with pytest.raises(ConfigError, match=r"Config must inherit Configurable\.Config"):

        class Stranger(Configurable):
            @dataclass(frozen=True, kw_only=True)
            class Config:  # pyright: ignore[reportIncompatibleVariableOverride]
                x: int = 0


def test_a_config_without_a_class_has_nothing_to_build() -> None:
    with pytest.raises(ConfigError, match="belongs to no class"):
        Configurable.Config().build()


def test_in_yaml_a_config_is_a_value_that_whoever_takes_it_builds(write: Write) -> None:
    write("stores/rows.py", SOURCE)
    cfg = OmegaConf.create(
        {
            "dataset": {
                "_component_": "stores.rows.dataset",
                "source": {"_component_": "stores.rows.Rows.Config", "path": "a", "limit": 2},
            }
        }
    )
    validate(cfg)
    value = instantiate(cfg.dataset.source)
    assert (value.path, value.limit) == ("a", 2)
    assert len(value.build()) == 2
    assert instantiate(cfg.dataset, "tokenizer").rows == ["a!", "a!"]


def test_in_yaml_a_misspelt_field_is_named(write: Write) -> None:
    write("stores/rows.py", SOURCE)
    config = {"_component_": "stores.rows.Rows.Config", "pth": "a"}
    with pytest.raises(InstantiationError, match=r"no argument 'pth'\. Did you mean 'path'\? Missing argument: 'path'"):
        instantiate(config)
