"""``key=value`` and ``~key`` from a command line, laid over a config."""

import re
from collections.abc import Iterable
from typing import Any

import yaml
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from torchpipe._suggest import did_you_mean, listed
from torchpipe.config.merge import COMPONENT
from torchpipe.errors import ConfigError

_LEADING_ZERO = re.compile(r"0\d+")


def check_override(text: str) -> None:
    """Raise where a word is neither ``key=value`` nor ``~key``.

    Raises:
        ConfigError: the sentence says how to write it.
    """
    if text.startswith("~"):
        if not text[1:] or "=" in text:
            raise ConfigError(f"'{text}' is no removal. Write ~key, without a value.")
    elif "=" not in text or text.startswith("="):
        raise ConfigError(f"'{text}' is no override. Write key=value to set a key, or ~key to remove one.")


def override_value(text: str) -> Any:
    """The value that an override's right side means: a YAML scalar, list or mapping.

    ``None`` is null, as in Python. A number with a leading zero stays text, for a YAML reader would take it as octal.

    >>> override_value("1e-3"), override_value("[1, 2]"), override_value("None"), override_value("007")
    (0.001, [1, 2], None, '007')

    Raises:
        ConfigError: not YAML.
    """
    if text == "None":
        return None
    if _LEADING_ZERO.fullmatch(text):
        return text
    try:
        parsed = OmegaConf.from_dotlist([f"value={text}"])
        return OmegaConf.to_container(parsed, resolve=False)["value"]  # pyright: ignore
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(
            f"The value {text!r} isn't valid YAML: {problem}. Quote it twice to give it as text: key='\"...\"'."
        ) from error


def apply_overrides(cfg: DictConfig, overrides: Iterable[str]) -> DictConfig:
    """The same config, changed by each override in turn.

    ``key=value`` splits at the first ``=``. A word for a component's key changes what the component is
    (``optimizer=torch.optim.SGD`` is ``optimizer._component_=torch.optim.SGD``) and leaves its other keys. A key that
    the config doesn't have is added. ``~key`` removes.

    Raises:
        ConfigError: an override is malformed, goes through a value that isn't a mapping, or removes a component or
            a key that isn't there.
    """
    for text in overrides:
        check_override(text)
        if text.startswith("~"):
            _remove(cfg, text[1:])
        else:
            key, _, value = text.partition("=")
            _set(cfg, key, value)
    return cfg


def _parts(key: str) -> list[str]:
    return [part for part in re.split(r"\.|\[(\d+)\]", key) if part]


def _step(node: Any, part: str) -> Any:
    """What stands under one part of a key, unresolved; LookupError where there is nothing."""
    if isinstance(node, DictConfig):
        if part not in node:
            # ``in`` is False too for a key whose ${...} can't be resolved.
            if part not in list(node.keys()):
                raise LookupError(part)
            return None
        return node._get_node(part) if OmegaConf.is_missing(node, part) else node[part]
    if isinstance(node, ListConfig) and part.isdigit() and int(part) < len(node):
        return node[int(part)]
    raise LookupError(part)


def _set(cfg: DictConfig, key: str, text: str) -> None:
    try:
        value = override_value(text)
    except ConfigError as error:
        raise ConfigError(f"'{key}={text}': {error}") from error.__cause__
    parts = _parts(key)
    if not parts or ".." in key or key.startswith(".") or key.endswith("."):
        raise ConfigError(f"'{key}={text}': '{key}' is no key. Write it as a.b.c, or a[0].b for an item of a list.")
    if parts == ["config"]:
        raise ConfigError("A config can't have the key 'config'. To choose another file, write --config FILE.")
    node: Any = cfg
    for place, part in enumerate(parts):
        if isinstance(node, ListConfig) and not (part.isdigit() and int(part) < len(node)):
            above = ".".join(parts[:place])
            raise ConfigError(f"'{key}={text}': {above} is a list of {len(node)}, and '{part}' is none of its places.")
        try:
            node = _step(node, part)
        except LookupError:
            node = None
            break
        if node is not None and place < len(parts) - 1 and not isinstance(node, DictConfig | ListConfig):
            above = ".".join(parts[: place + 1])
            raise ConfigError(f"'{key}={text}': {above} is {node!r}, not a mapping, so nothing can be set below it.")
    if isinstance(value, str) and isinstance(node, DictConfig) and COMPONENT in node:
        key = f"{key}.{COMPONENT}"
    try:
        OmegaConf.update(cfg, key, value, merge=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"'{key}={text}': {str(error).splitlines()[0]}") from error


def _remove(cfg: DictConfig, key: str) -> None:
    parts = _parts(key)
    node: Any = cfg
    for place, part in enumerate(parts):
        above = ".".join(parts[:place]) or "the config"
        try:
            below = _step(node, part)
        except LookupError:
            names = [str(name) for name in node.keys()] if isinstance(node, DictConfig) else []  # noqa: SIM118
            told = f" Its keys: {listed(names)}." if names else ""
            raise ConfigError(
                f"'~{key}': there is no '{part}' in {above}, so nothing to remove.{did_you_mean(part, names)}{told}"
            ) from None
        if place == len(parts) - 1:
            if part == COMPONENT or (isinstance(below, DictConfig) and COMPONENT in below):
                owner = key.removesuffix(f".{COMPONENT}")
                raise ConfigError(
                    f"'~{key}': a component can't be removed from the command line. Set it to null ({owner}=null), or "
                    "take it out of the file."
                )
            del node[int(part) if isinstance(node, ListConfig) else part]
        node = below
