"""A YAML file to a config, or one sentence that says which line is wrong."""

from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from torchpipe.config.merge import remember_file
from torchpipe.errors import ConfigError


def load_config(file: str | Path) -> DictConfig:
    """The config that a YAML file holds. It remembers the file, so that later errors name it.

    Raises:
        ConfigError: the file can't be read, isn't YAML, gives a key twice, is empty, holds no mapping, or has a
            top-level key "config".
    """
    name = str(file)
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: the file isn't UTF-8 text (byte {error.start}). Is it a YAML file?") from error
    except OSError as error:
        raise ConfigError(f"{name}: the file can't be read: {error.strerror or error}.") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            raise ConfigError(f"{name}: the file is empty. A config is a mapping of keys to values, as 'seed: 1'.")
        if not isinstance(root, yaml.MappingNode):
            kind = "list" if isinstance(root, yaml.SequenceNode) else "single value"
            raise ConfigError(
                f"{name}, line {root.start_mark.line + 1}: the file holds a {kind}. A config is a mapping of keys to "
                "values, as 'seed: 1'."
            )
        for key, _ in root.value:
            if getattr(key, "value", None) == "config":
                raise ConfigError(
                    f"{name}, line {key.start_mark.line + 1}: a config can't have the key 'config' at the top, for "
                    "--config names the file. Give the key another name."
                )
        cfg = OmegaConf.create(text)
    except ConfigError:
        raise
    except yaml.YAMLError as error:
        raise ConfigError(_told(name, error)) from error
    except (OmegaConfBaseException, RecursionError, ValueError) as error:  # ValueError: a number of 4300 digits or more
        raise ConfigError(f"{name}: {(str(error).splitlines() or ['nested too deeply'])[0]}") from error
    assert isinstance(cfg, DictConfig)
    return remember_file(cfg, name)


def _told(name: str, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = f"{name}, line {mark.line + 1}" if mark is not None else name
    problem = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None)
    begun = getattr(error, "context_mark", None)
    if context and begun is not None and mark is not None and begun.line != mark.line:
        context += f" that begins in line {begun.line + 1}"
    if problem.startswith("found duplicate key"):
        key = problem.removeprefix("found duplicate key").strip()
        return f"{place}: the key '{key}' is given twice in the same mapping. Remove one."
    return f"{place}: this isn't valid YAML: {problem}{f' ({context})' if context else ''}."
