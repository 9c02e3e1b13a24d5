import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from torchpipe.config import ConfigError, validate

Write = Callable[[str, str], Path]

COMPONENTS = """
raise_when_called = True
def dataset(tokenizer, source, *, limit=None): raise AssertionError('validate calls nothing')
def source(path, rows=3): raise AssertionError('validate calls nothing')
"""


@pytest.fixture
def mine(write: Write) -> Write:
    write("valid/parts.py", COMPONENTS)
    return write


def errors_of(cfg: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        validate(cfg, **kwargs)
    errors: list[ConfigError] = vars(caught.value)["errors"]
    assert all(str(error) in str(caught.value) for error in errors)
    return [str(error) for error in errors]


def test_a_good_config_passes_and_nothing_is_called(mine: Write) -> None:
    validate(
        OmegaConf.create(
            {
                "seed": 1,
                "file": "a",
                "dataset": {
                    "_component_": "valid.parts.dataset",
                    "source": {"_component_": "valid.parts.source", "path": "${file}"},
                },
            }
        )
    )


def test_a_top_component_may_lack_what_the_recipe_passes(mine: Write) -> None:
    validate({"dataset": {"_component_": "valid.parts.dataset"}, "optimizer": {"_component_": "torch.optim.SGD"}})
    validate({"datasets": [{"_component_": "valid.parts.dataset"}]})


def test_a_nested_component_may_lack_nothing(mine: Write) -> None:
    cfg = {"dataset": {"_component_": "valid.parts.dataset", "source": {"_component_": "valid.parts.source"}}}
    assert errors_of(cfg) == [
        "dataset.source: valid.parts.source can't be called as written. Missing argument: 'path'."
    ]


def test_every_problem_is_collected_with_its_key_path(mine: Write) -> None:
    cfg = OmegaConf.create(
        {
            "dataset": {
                "_component_": "valid.parts.dataset",
                "limits": 3,
                "source": [{"_component_": "valid.parts.source", "pth": "x"}, {"_component_": "valid.nope.X"}],
            },
            "loss": {"_component_": "os.system"},
            "path": "${nowhere}",
            "model": {"_component_": 3},
        }
    )
    errors = errors_of(cfg)
    assert [error.partition(": ")[0] for error in errors] == [
        "path",
        "dataset",
        "dataset.source[0]",
        "dataset.source[1]",
        "loss",
        "model",
    ]
    with pytest.raises(ConfigError, match=r"^6 problems in the config:\n  - path: "):
        validate(cfg)


def test_an_unexpected_and_a_missing_argument_are_both_reported(mine: Write) -> None:
    (error,) = errors_of({"source": {"_component_": "valid.parts.source", "pth": "x"}})
    assert error == (
        "source: valid.parts.source can't be called as written. It takes no argument 'pth'. Did you mean 'path'? "
        "Missing argument: 'path'. It takes: 'path', 'rows'."
    )


def test_a_module_that_fails_when_imported_is_one_of_the_problems(write: Write) -> None:
    write("valid2/bad.py", "1 / 0\n")
    write("valid2/leaves.py", "raise SystemExit(3)\n")
    write("valid2/lacks.py", "import not_installed_here\n")
    errors = errors_of({name: {"_component_": f"valid2.{name}.f"} for name in ("bad", "leaves", "lacks")})
    assert "importing it raised ZeroDivisionError: division by zero" in errors[0]
    assert "importing it raised SystemExit: 3" in errors[1]
    assert "No module named 'not_installed_here'" in errors[2]


def test_without_importing_nothing_is_imported(write: Write, tmp_path: Path) -> None:
    write("valid3/loud.py", f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    validate({"a": {"_component_": "valid3.loud.f", "x": 1}}, import_components=False)
    assert not (tmp_path / "imported").exists()
    assert "valid3" not in sys.modules


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ("os.system", "'os.system' is refused"),
        ("a..b", "two in a row"),
        (".a", "begins or ends with a dot"),
        ("a.__class__", "is one of Python's internal names"),
        ("a.b-c", "can't be a Python name"),
        (3, "A dotted name is needed"),
        (None, "A dotted name is needed"),
        ("${nowhere}", "Interpolation key 'nowhere' not found"),
    ],
)
def test_without_importing_spelling_is_checked_in_nested_components(component: Any, message: str) -> None:
    cfg = OmegaConf.create({"a": {"_component_": "my.mod.f", "deep": [{"x": {"_component_": component}}]}})
    with pytest.raises(ConfigError, match=rf"a\.deep\[0\]\.x.*{message}"):
        validate(cfg, import_components=False)


def test_one_problem_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^a: _component_: 'os\.system' is refused"):
        validate({"a": {"_component_": "os.system"}})


def test_a_component_may_be_the_whole_config(mine: Write) -> None:
    validate({"_component_": "valid.parts.source"})
    with pytest.raises(ConfigError, match="It takes no argument 'q'"):
        validate({"_component_": "valid.parts.source", "q": 1})


def test_a_value_that_will_be_given_is_no_problem(mine: Write) -> None:
    validate(
        OmegaConf.create(
            {"file": "???", "dataset": {"_component_": "valid.parts.dataset", "source": "${file}", "limit": "???"}}
        )
    )


def test_what_is_no_config_is_refused() -> None:
    with pytest.raises(ConfigError, match="A config is a DictConfig or a dict; got str"):
        validate("x")  # pyright: ignore[reportArgumentType]
