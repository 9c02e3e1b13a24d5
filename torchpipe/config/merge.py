"""Plain dictionaries from configs, and arguments laid over them.

Everything after this file works on dictionaries and lists: OmegaConf can't hold a tokenizer, a module or a generator
of parameters, and would copy what it can hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import InterpolationToMissingValueError, MissingMandatoryValue, OmegaConfBaseException

from torchpipe.errors import ConfigError, InstantiationError

COMPONENT = "_component_"

_FILE = "_torchpipe_file"
_DEEPEST = 100


def remember_file(cfg: DictConfig, file: str) -> DictConfig:
    """The config itself, which from now on knows the file it was read from."""
    vars(cfg)[_FILE] = file
    return cfg


def file_of(cfg: object) -> str | None:
    """The file that a config, or the config it is a part of, was read from; None where that isn't known."""
    if not isinstance(cfg, DictConfig | ListConfig):
        return None
    return vars(cfg._get_root()).get(_FILE)


def key_path_of(cfg: object) -> str:
    """Where a config stands in the config it is a part of, as ``dataset[0].source``; empty for a whole one."""
    # omegaconf's own full key of an item of a list lacks the brackets.
    keys: list[object] = []
    node: Any = cfg if isinstance(cfg, DictConfig | ListConfig) else None
    while node is not None and (parent := node._get_parent()) is not None:
        keys.append(node._key())
        node = parent
    return reduce(join_key, reversed(keys), "")


def join_key(key_path: str, key: object) -> str:
    """The key path one step further down: ``a.b`` or ``a[0]``.

    >>> join_key("dataset", "source"), join_key("datasets", 0), join_key("", "seed")
    ('dataset.source', 'datasets[0]', 'seed')
    """
    if isinstance(key, int) and not isinstance(key, bool):
        return f"{key_path}[{key}]"
    return f"{key_path}.{key}" if key_path else str(key)


def located(key_path: str, file: str | None = None) -> str:
    """The beginning of an error's sentence: file and key path, as far as they are known.

    >>> located("dataset", "a.yaml"), located("dataset"), located("")
    ('a.yaml: dataset: ', 'dataset: ', '')
    """
    return "".join(f"{part}: " for part in (file, key_path) if part)


def to_plain(cfg: object, problems: list[ConfigError] | None = None, to_be_given: list[str] | None = None) -> Any:
    """A config as dictionaries and lists, with every ``${...}`` replaced by its value.

    Args:
        cfg: a DictConfig, a dict, or a list; a dict may hold any objects, which stay the same objects.
        problems: what can't be resolved is added here and None in the result; without a list it is raised.
        to_be_given: the keys of values that are still ``???`` are added here, and they stay ``???`` in the result;
            without a list they are problems.

    Raises:
        InstantiationError: a ``${...}`` can't be resolved, a value is still ``???``, or the config contains itself.
    """
    try:
        return _plain(cfg, problems, to_be_given)
    except RecursionError:
        raise InstantiationError(
            f"{located(key_path_of(cfg), file_of(cfg))}The config contains itself, or nests deeper than can be read. "
            "Look for an alias (*name) inside of its own anchor (&name)."
        ) from None


def _plain(cfg: object, problems: list[ConfigError] | None, to_be_given: list[str] | None) -> Any:
    live: dict[str, Any] = {}
    reader = _Reader(file=file_of(cfg), problems=[] if problems is None else problems, to_be_given=to_be_given)
    key_path = key_path_of(cfg)
    if isinstance(cfg, Mapping | list) and not isinstance(cfg, DictConfig | ListConfig):
        cfg, live = _hide_objects(cfg)
    reader.live = live
    plain = reader.value(cfg, key_path, 0)
    if problems is None and reader.problems:
        raise reader.problems[0]
    return plain


@dataclass(kw_only=True)
class _Reader:
    file: str | None
    problems: list[ConfigError]
    to_be_given: list[str] | None
    live: dict[str, Any] = field(default_factory=dict)

    def value(self, value: Any, key_path: str, depth: int) -> Any:
        if isinstance(value, str):
            return self.missing(key_path) if value == "???" else self.live.get(value, value)
        if isinstance(value, dict | DictConfig):
            keys: list[Any] = list(value)
        elif isinstance(value, list | ListConfig):
            keys = list(range(len(value)))
        else:
            return value
        if depth > _DEEPEST:
            self.problem(f"{key_path[:60]}...", "it is nested without end. Does a ${...} point to its parent?")
            return None
        pairs = [
            (key, self.item(value, key, join_key(key_path, key), depth + 1))
            for key in keys
            if len(self.problems) <= _DEEPEST
        ]
        return dict(pairs) if isinstance(value, dict | DictConfig) else [item for _, item in pairs]

    def item(self, container: Any, key: Any, key_path: str, depth: int) -> Any:
        try:
            found = container[key]
        except (MissingMandatoryValue, InterpolationToMissingValueError) as error:
            return self.missing(key_path, itself=isinstance(error, MissingMandatoryValue))
        except (OmegaConfBaseException, RecursionError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            self.problem(key_path, f"{reason}. Correct the ${{...}} there.")
            return None
        return self.value(found, key_path, depth)

    def missing(self, key_path: str, *, itself: bool = True) -> str:
        if self.to_be_given is not None:
            self.to_be_given += [key_path] * itself
        elif itself:
            told = f"the value is still '???'. Give it one in the file, or as {key_path}=... on the command line."
            self.problem(key_path, told)
        else:
            self.problem(
                key_path, "it takes its value by ${...} from a key that is still '???'. Give that key a value."
            )
        return "???"

    def problem(self, key_path: str, told: str) -> None:
        self.problems.append(InstantiationError(located(key_path, self.file) + told))


def _hide_objects(cfg: Mapping[Any, Any] | list[Any]) -> tuple[Any, dict[str, Any]]:
    """The same container, or, where it holds a ``${...}``, an OmegaConf with objects replaced by place holders."""
    if not _has_interpolation(cfg):
        return dict(cfg) if isinstance(cfg, Mapping) and not isinstance(cfg, dict) else cfg, {}
    live: dict[str, Any] = {}

    def hide(value: Any) -> Any:
        if isinstance(value, DictConfig | ListConfig):
            return value
        if isinstance(value, dict):
            return {key: hide(item) for key, item in value.items()}
        if isinstance(value, list):
            return [hide(item) for item in value]
        if value is None or isinstance(value, str | bool | int | float):
            return value
        name = f"\0object {len(live)}"
        live[name] = value
        return name

    try:
        return OmegaConf.create(hide(cfg)), live
    except OmegaConfBaseException as error:
        raise InstantiationError(f"The config can't be read: {str(error).splitlines()[0]}") from error


def _has_interpolation(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, dict):
        return any(_has_interpolation(item) for item in value.values())
    return isinstance(value, list) and any(_has_interpolation(item) for item in value)


@dataclass(frozen=True, kw_only=True)
class Live:
    """An object that the calling code passed: never looked into, so rows of data can't name components."""

    value: Any


def merge(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A new dict: the arguments over the config, dict over dict key by key, anything else replaced as it is.

    What can still hold components stays a dict or list: configs, dicts over dicts, and a dict that is a component
    itself. Everything else is wrapped in ``Live``.

    >>> merge({"source": {"path": "a", "limit": 3}, "seed": 0}, {"source": {"path": "b"}})
    {'source': {'path': Live(value='b'), 'limit': 3}, 'seed': 0}
    """
    merged = dict(config)
    for key, value in arguments.items():
        if isinstance(value, DictConfig | ListConfig):
            value = to_plain(value)
            is_config = True
        else:
            is_config = type(value) is dict and COMPONENT in value
        below = merged.get(key)
        if type(value) is dict and isinstance(below, dict):
            merged[key] = {**below, **value} if is_config else merge(below, value)
        else:
            merged[key] = value if is_config else Live(value=value)
    return merged
