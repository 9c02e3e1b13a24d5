"""Arguments that tokenizers share."""

from collections.abc import Sequence

from torchpipe.errors import ConfigError


def check_max_seq_len(max_seq_len: object) -> None:
    """Refuses a length that is none.

    Raises:
        ConfigError: it is neither None nor a whole number above 0.
    """
    if max_seq_len is None or (isinstance(max_seq_len, int) and not isinstance(max_seq_len, bool) and max_seq_len > 0):
        return
    raise ConfigError(f"max_seq_len is {max_seq_len!r}. Give a whole number of tokens above 0, or null for no limit.")


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Refuses a value that is none of those allowed.

    Raises:
        ConfigError: it isn't.
    """
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}. It can be {' or '.join(map(repr, allowed))}.")
