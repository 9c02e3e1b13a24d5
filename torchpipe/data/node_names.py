"""The names of nodes of a data graph. A node's seed is hashed from its name, so that it is its own."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe._fingerprint import fingerprint
from torchpipe._suggest import listed
from torchpipe.errors import ConfigError


def node_names(given: Sequence[str | None], otherwise: Sequence[str]) -> list[str]:
    """A name for each node: the one given, or else what stands for the node, numbered where several have it.

    A node that is put in or taken out changes no other's name, but for those numbered after an equal one.

    Args:
        given: names, None where there is none.
        otherwise: for each node what it is called without a name, such as :func:`config_name`.

    Raises:
        ConfigError: two are given the same name, or a name is no text or empty.

    >>> node_names([None, "math", None], ["chat", "chat", "chat"])
    ['chat', 'math', 'chat (2)']
    """
    for name in given:
        if name is not None and (not isinstance(name, str) or not name):
            raise ConfigError(f"A name is {name!r}. Give a text, or leave it out.")
    taken = Counter(name for name in given if name is not None)
    if twice := [name for name, count in taken.items() if count > 1]:
        raise ConfigError(f"Several are called {listed(sorted(twice))}. Give each a name of its own, or none.")
    names: list[str] = []
    for name, other in zip(given, otherwise, strict=True):
        unused, number = other, 1
        while name is None and unused in taken:
            number += 1
            unused = f"{other} ({number})"
        if name is None:
            taken[unused] += 1
        names.append(unused if name is None else name)
    return names


def config_name(config: Mapping[Any, Any]) -> str:
    """What a node is called that has a config and no name: its component and a hash of all of the config.

    Raises:
        NoFingerprint: it holds objects that can't be told from others.

    >>> config_name({"_component_": "torchpipe.datasets.chat_dataset", "source": "json"})
    'chat_dataset-14ba41f2'
    """
    component = str(config.get("_component_", "node")).rpartition(".")[2]
    return f"{component}-{fingerprint(_in_order(config))[:8]}"


def _in_order(value: Any) -> Any:
    """The value with the keys of its mappings sorted."""
    if isinstance(value, Mapping):
        return {str(key): _in_order(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_in_order(item) for item in value]
    return value
