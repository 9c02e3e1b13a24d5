"""Which messages of a conversation are trained on."""

import warnings
from collections.abc import Sequence
from enum import Enum

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.messages import Message
from torchpipe.errors import ConfigError


class MaskingStrategy(Enum):
    """Which messages are trained on. System and developer messages never are, unless their data says so."""

    TRAIN_ON_ALL = "train_on_all"
    """Every message, except user messages with an image in them."""
    TRAIN_ON_ASSISTANT = "train_on_assistant"
    """Every assistant message."""
    TRAIN_ON_LAST = "train_on_last"
    """The last assistant message alone."""


def _strategy(value: object) -> MaskingStrategy:
    if isinstance(value, MaskingStrategy):
        return value
    try:
        return MaskingStrategy(value)
    except ValueError:
        known = [strategy.value for strategy in MaskingStrategy]
        raise ConfigError(
            f"Unknown masking strategy {value!r}. It is one of {listed(known)}.{did_you_mean(value, known)}"
        ) from None


def mask_messages(messages: Sequence[Message], masking_strategy: str | MaskingStrategy) -> None:
    """None; sets ``masked`` on every message in place, whatever it was before.

    A message whose data says whether to train on it (``train``, or a ``weight`` of 0) is masked as it says.

    Raises:
        ConfigError: the strategy is none of the three.
    """
    strategy = _strategy(masking_strategy)
    # Looked up once: the members of an enum are slow to reach.
    trains_all = strategy is MaskingStrategy.TRAIN_ON_ALL
    trains_last = strategy is MaskingStrategy.TRAIN_ON_LAST
    trained_last = False
    for message in reversed(messages):
        from_assistant = message.role == "assistant"
        if message.train is not None or message.weight == 0:
            message.masked = message.weight == 0 or not message.train
        elif message.role in ("system", "developer"):
            message.masked = True
        elif trains_all:
            message.masked = message.role == "user" and message.contains_media
        else:
            message.masked = not from_assistant or (trains_last and trained_last)
        trained_last = trained_last or from_assistant


def resolve_masking_strategy(
    train_on_input: bool | None,
    masking_strategy: str | MaskingStrategy | None,
    *,
    default: str | MaskingStrategy,
    stacklevel: int = 3,
) -> MaskingStrategy:
    """The one strategy that two arguments ask for: the current one, and the deprecated ``train_on_input``.

    Neither given: ``default``. ``train_on_input`` given: a DeprecationWarning, and True means train_on_all, False
    train_on_assistant. Both given: they must agree.

    Args:
        train_on_input: the deprecated switch, None when it was not given.
        masking_strategy: the strategy by name or member, None when it was not given.
        default: what to use when neither is given.
        stacklevel: where the warning points; 3 is the caller of the function that calls this one.

    Raises:
        ConfigError: an unknown strategy, a ``train_on_input`` that is not a boolean, or two answers that differ.
    """
    asked = None if masking_strategy is None else _strategy(masking_strategy)
    if train_on_input is None:
        return asked or _strategy(default)
    if not isinstance(train_on_input, bool):
        raise ConfigError(f"train_on_input={train_on_input!r} is not True or False. Use masking_strategy instead.")
    meant = MaskingStrategy.TRAIN_ON_ALL if train_on_input else MaskingStrategy.TRAIN_ON_ASSISTANT
    if asked is not None and asked is not meant:
        raise ConfigError(
            f"train_on_input={train_on_input} means masking_strategy={meant.value!r}, but masking_strategy="
            f"{asked.value!r} was given as well. Remove train_on_input."
        )
    warnings.warn(
        f"train_on_input is deprecated: write masking_strategy={meant.value!r} for train_on_input={train_on_input}.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
    return meant
