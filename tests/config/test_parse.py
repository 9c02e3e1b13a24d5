import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from torchpipe.config import ConfigError, instantiate, parse
from torchpipe.config.load import load_config
from torchpipe.config.overrides import apply_overrides, override_value
from torchpipe.errors import DataError

Write = Callable[[str, str], Path]

JOB = """
seed: 1
lr: 0.1
note: text
optimizer:
  _component_: torch.optim.AdamW
  lr: ${lr}
  betas: [0.9, 0.95]
data:
  train:
    path: a
    sources:
      - {_component_: my.X, n: 1}
      - plain
off: null
"""


@pytest.fixture
def command(write: Write, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any]]:
    """Runs a parsed recipe with the given words and returns (exit status, the config it got)."""
    write("job.yaml", JOB)

    def run(*words: str, main: Callable[[DictConfig], Any] | None = None) -> tuple[Any, Any]:
        got: list[DictConfig] = []

        @parse
        def recipe(cfg: DictConfig) -> Any:
            """Train something."""
            got.append(cfg)
            return main(cfg) if main is not None else None

        monkeypatch.setattr(sys, "argv", ["recipe.py", *words])
        with pytest.raises(SystemExit) as caught:
            recipe()
        return caught.value.code, got[0] if got else None

    return run


def test_the_recipe_gets_the_file_with_its_overrides(command: Callable[..., tuple[Any, Any]]) -> None:
    status, cfg = command("seed=7", "--config", "job.yaml", "data.train.path=b=c", "new.key=1", "~note")
    assert status is None
    assert (cfg.seed, cfg.data.train.path, cfg.new.key) == (7, "b=c", 1)
    assert "note" not in cfg


@pytest.mark.parametrize("returned", [0, 3, None])
def test_what_the_recipe_returns_is_the_exit_status(command: Callable[..., tuple[Any, Any]], returned: Any) -> None:
    assert command("--config=job.yaml", main=lambda cfg: returned)[0] == returned


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--config is missing"),
        (
            ["--config", "job.yaml", "--epochs", "3"],
            "unknown option: --epochs. A config's keys are set without dashes, as",
        ),
        (["--config", "job.yaml", "--a", "--b=1"], "unknown options: --a --b=1"),
        (["--config", "job.yaml", "seed"], "'seed' is no override"),
        (["--config", "job.yaml", "=3"], "'=3' is no override"),
        (["--config", "job.yaml", "~"], "'~' is no removal"),
        (["--config", "job.yaml", "~seed=3"], "'~seed=3' is no removal"),
        (["--config", "jobs.yaml"], "There is no config jobs.yaml: no such file"),
        (["--config", "jobs.yaml"], "Did you mean 'job.yaml'?"),
        (["--config", "."], "is a folder. Name one of its files: 'job.yaml'"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_status_2(
    command: Callable[..., tuple[Any, Any]], capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert command(*words) == (2, None)
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bad.yaml: the file is empty"),
        ("# only a comment\n", "bad.yaml: the file is empty"),
        ("- 1\n- 2\n", "bad.yaml, line 1: the file holds a list"),
        ("\nword\n", "bad.yaml, line 2: the file holds a single value"),
        ("seed: 1\nconfig: x\n", "bad.yaml, line 2: a config can't have the key 'config' at the top"),
        ("seed: 1\nlr: [1,\nother: 2\n", "bad.yaml, line 4: this isn't valid YAML"),
        ("a:\n  b: 1\n  b: 2\n", "bad.yaml, line 3: the key 'b' is given twice"),
        ("a: !!python/object/apply:os.system ['true']\n", "bad.yaml, line 1: this isn't valid YAML"),
        ("a: ${b\n", "bad.yaml: "),
        ("\ta: 1\n", "bad.yaml, line 1: this isn't valid YAML"),
    ],
)
def test_a_file_that_is_no_config_is_one_sentence_with_its_line(
    command: Callable[..., tuple[Any, Any]],
    write: Write,
    capsys: pytest.CaptureFixture[str],
    text: str,
    message: str,
) -> None:
    write("bad.yaml", "")
    Path("bad.yaml").write_text(text)
    assert command("--config", "bad.yaml") == (1, None)
    told = capsys.readouterr().err
    assert told.startswith(f"Error: {message}")
    assert "Traceback" not in told


def test_a_bracket_left_open_is_named_by_its_line(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"flow sequence that begins in line 2"):
        load_config(write("x.yaml", "seed: 1\nlr: [1,\nother: 2\n"))


def test_a_file_that_is_no_text_is_one_sentence(write: Write) -> None:
    write("x.yaml", "")
    Path("x.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigError, match=r"x\.yaml: the file isn't UTF-8 text \(byte 3\)"):
        load_config("x.yaml")


def test_an_error_of_torchpipe_is_a_sentence_with_its_notes_and_status_1(
    command: Callable[..., tuple[Any, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(cfg: DictConfig) -> None:
        error = DataError("Row 3: no text. Give it some.")
        error.add_note("While building data.")
        raise error

    assert command("--config", "job.yaml", main=fails)[0] == 1
    assert capsys.readouterr().err == "Error: Row 3: no text. Give it some.\nWhile building data.\n"


def test_the_traceback_is_there_for_those_who_ask(
    command: Callable[..., tuple[Any, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHPIPE_TRACEBACK", "1")
    assert command("--config", "job.yaml", main=lambda cfg: instantiate(cfg.data))[0] == 1
    told = capsys.readouterr().err
    assert "Traceback (most recent call last)" in told
    assert "InstantiationError: job.yaml: data: There is no _component_" in told


def test_other_exceptions_keep_their_traceback(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("job.yaml", JOB)

    @parse
    def recipe(cfg: DictConfig) -> None:
        raise KeyError("mine")

    monkeypatch.setattr(sys, "argv", ["recipe.py", "--config", "job.yaml"])
    with pytest.raises(KeyError, match="mine"):
        recipe()


def test_a_parsed_recipe_is_still_a_function_of_a_config() -> None:
    @parse
    def recipe(cfg: DictConfig) -> int:
        """Add one."""
        return cfg.seed + 1

    cfg = OmegaConf.create({"seed": 1})
    assert recipe(cfg) == recipe.__wrapped__(cfg) == 2  # pyright: ignore[reportFunctionMemberAccess]
    assert (recipe.__name__, recipe.__doc__) == ("recipe", "Add one.")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("3", 3),
        ("-1", -1),
        ("[1,2]", [1, 2]),
        ("{a: 1}", {"a": 1}),
        ("true", True),
        ("None", None),
        ("null", None),
        ("", None),
        ("a=b=c", "a=b=c"),
        ("00020", "00020"),
        ("'3'", "3"),
        ("https://x/y?z=1", "https://x/y?z=1"),
        ("${lr}", "${lr}"),
    ],
)
def test_an_overrides_value_is_typed_as_in_the_file(text: str, value: Any) -> None:
    got = override_value(text)
    assert got == value
    assert type(got) is type(value)


def overridden(*overrides: str) -> DictConfig:
    cfg = OmegaConf.create(JOB)
    assert isinstance(cfg, DictConfig)
    return apply_overrides(cfg, overrides)


def test_a_word_for_a_component_changes_what_it_is_and_keeps_its_arguments() -> None:
    cfg = overridden("optimizer=torch.optim.SGD", "data.train.sources[0]=my.Y")
    assert OmegaConf.to_container(cfg.optimizer) == {
        "_component_": "torch.optim.SGD",
        "lr": "${lr}",
        "betas": [0.9, 0.95],
    }
    assert cfg.data.train.sources[0] == {"_component_": "my.Y", "n": 1}


def test_null_for_a_component_turns_it_off() -> None:
    assert instantiate(overridden("optimizer=null").optimizer) is None


def test_items_of_lists_can_be_set() -> None:
    assert overridden("data.train.sources.0.n=5").data.train.sources[0].n == 5
    assert overridden("optimizer.betas[1]=0.5").optimizer.betas == [0.9, 0.5]


def test_overrides_apply_in_turn_and_reach_interpolations() -> None:
    assert overridden("lr=3", "~note", "note=again").optimizer.lr == 3
    assert overridden("off.deep=1").off.deep == 1


def test_nested_keys_and_items_can_be_removed() -> None:
    cfg = overridden("~optimizer.betas", "~data.train.sources[1]")
    assert "betas" not in cfg.optimizer
    assert len(cfg.data.train.sources) == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("~optimizer", r"'~optimizer': a component can't be removed.*optimizer=null"),
        ("~optimizer._component_", r"a component can't be removed.*\(optimizer=null\)"),
        ("~data.train.sources[0]", "a component can't be removed"),
        ("~optimizer.beta", r"there is no 'beta' in optimizer.*Did you mean 'betas'\?"),
        ("~sed", r"there is no 'sed' in the config.*Did you mean 'seed'\?"),
        ("lr.x=1", r"'lr\.x=1': lr is 0\.1, not a mapping"),
        ("data.train.sources.7.n=1", "is a list of 2, and '7' is none of its places"),
        ("xs=[1,2", r"'xs=\[1,2': The value '\[1,2' isn't valid YAML"),
        ("a..b=1", "is no key"),
        ("config=x", "can't have the key 'config'"),
    ],
)
def test_an_override_that_cannot_apply_says_why(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        overridden(override)
