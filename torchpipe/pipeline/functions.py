"""Functions that a config names: given as they are, or by the dotted name that YAML has for them."""

from collections.abc import Callable
from typing import Any

from torchpipe._dotpath import resolve
from torchpipe.errors import ConfigError


def as_function(value: Any, key: str) -> Callable[..., Any]:
    """The function itself, or the one that a dotted name stands for.

    Args:
        value: a function, or its dotted name.
        key: what the config calls it, for errors.

    Raises:
        ConfigError: it is neither, or there is no such function.

    >>> as_function("torchpipe.data.validate_messages", "messages_fn").__name__
    'validate_messages'
    """
    found = resolve(value) if isinstance(value, str) else value
    if not callable(found):
        raise ConfigError(
            f"{key} is {value!r}, which can't be called. Give a function, or its dotted name, as "
            "'my_package.my_module.my_function'."
        )
    return found
