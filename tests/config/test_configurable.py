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


class Window(Configurable):
    """A setting that may be changed, as torchtitan's are."""

    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        size: int

        def __post_init__(self) -> None:
            if self.size < 1:
                raise ValueError(f"size is {self.size}")


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


def test_a_config_must_be_a_keyword_only_dataclass() -> None:
    with pytest.raises(ConfigError, match=r"isn't decorated as a dataclass\. Write it as @dataclass\(kw_only=True"):

        class Bare(Configurable):
            class Config(Configurable.Config):
                x: int = 0

    with pytest.raises(ConfigError, match=r"isn't decorated as a dataclass"):

        class Inherited(Lines):
            class Config(Lines.Config):
                kept = (3,)  # which would have no effect

    with pytest.raises(ConfigError, match=r"Config must be keyword-only, and x can be given by position"):

        class Positional(Configurable):
            @dataclass
            class Config(Configurable.Config):
                x: int = 0

    with pytest.raises(ConfigError, match=r"Config must inherit Configurable\.Config"):

        class Stranger(Configurable):
            @dataclass(frozen=True, kw_only=True)
            class Config:  # pyright: ignore[reportIncompatibleVariableOverride]
                x: int = 0


def test_a_config_may_be_changed_where_its_class_lets_it() -> None:
    config = Window.Config(size=3)
    config.size = 4
    assert config.build().config.size == 4
    assert not hasattr(config, "__dict__")


def test_what_is_built_holds_a_copy_of_the_settings() -> None:
    config = Window.Config(size=3)
    built = config.build()
    config.size = 4
    assert (built.config.size, built.config is config) == (3, False)


def test_changed_settings_are_checked_again_when_they_are_built() -> None:
    config = Window.Config(size=3)
    config.size = 0
    with pytest.raises(ValueError, match="size is 0"):
        config.build()


def test_configs_without_fields_compare_by_their_class() -> None:
    class Base(Configurable):
        class Config(Configurable.Config):
            pass

    class Changeable(Base):
        @dataclass(kw_only=True, slots=True)
        class Config(Base.Config):
            x: int = 0

    class Fixed(Base):
        @dataclass(kw_only=True, slots=True, frozen=True)
        class Config(Base.Config):
            x: int = 0

    class Plain(Base):
        pass

    assert Plain.Config() == Plain.Config()
    assert len({Plain.Config(), Plain.Config(), Base.Config()}) == 2
    assert repr(Plain.Config()).endswith("Plain.Config()")
    assert Plain.Config().to_dict() == {}
    assert (Changeable.Config(x=1).build().config.x, Fixed.Config(x=2).build().config.x) == (1, 2)
    assert Changeable.Config(x=1) != Changeable.Config(x=2)


def test_a_subclass_of_a_changeable_one_has_a_changeable_config() -> None:
    class Wider(Window):
        pass

    config = Wider.Config(size=3)  # pyright: ignore[reportCallIssue]
    config.size = 5
    assert (type(config.build()), config.build().config.size) == (Wider, 5)


def test_a_field_can_not_be_given_when_it_is_built() -> None:
    with pytest.raises(ConfigError, match=r"Lines\.Config\.build\(\) was given kept, which the config says"):
        Lines.Config(path="a").build(kept=(3,))


def test_values_of_a_class_are_found_in_a_tree_and_can_be_replaced() -> None:
    @dataclass(kw_only=True, slots=True)
    class Node(Configurable.Config):
        children: Any = None

    @dataclass(frozen=True, kw_only=True)
    class Plain:
        inner: Any

    first, second, third = Window.Config(size=1), Window.Config(size=2), Window.Config(size=3)
    tree = Node(children=[first, Plain(inner=(second,)), {"a": Node(children=third)}])
    found = list(tree.traverse(Window.Config))
    assert [path for path, *_ in found] == ["children.0", "children.1.inner.0", "children.2.a.children"]
    assert [config for _, config, *_ in found] == [first, second, third]
    _, _, parent, name = found[2]
    setattr(parent, str(name), None)
    _, _, parent, name = found[0]
    parent[name] = Window.Config(size=9)
    assert [config.size for _, config, *_ in tree.traverse(Window.Config)] == [9, 2]


def test_what_is_within_a_found_value_is_found_when_asked_for() -> None:
    @dataclass(kw_only=True, slots=True)
    class Node(Configurable.Config):
        child: Any = None

    tree = Node(child=Node())
    assert list(tree.traverse(Node)) == [("", tree, None, None)]
    assert list(tree.traverse(Node, recurse=True)) == [("", tree, None, None), ("child", tree.child, tree, "child")]


def test_a_value_without_a_form_is_written_as_its_repr_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert Pair.Config(first=Lines.Config(path="a"), hook=1j).to_dict()["hook"] == "1j"  # pyright: ignore
    assert "A config holds a complex" in caplog.text


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
