"""A message transform of one's own in place of the one that a builder makes of its options."""

from collections.abc import Callable
from typing import Any

from torchpipe._suggest import listed
from torchpipe.data.protocols import Transform
from torchpipe.errors import ConfigError


def own_or_made(given: Transform | None, make: Callable[..., Transform], **options: Any) -> Transform:
    """The transform that was given, or what ``make`` makes of the builder's options.

    Raises:
        ConfigError: one was given, and options that it would not see.
    """
    if given is None:
        return make(**options)
    without_effect = [name for name, value in options.items() if value is not None]
    if without_effect:
        raise ConfigError(
            f"{listed(without_effect)} has no effect with a message_transform of your own. Leave it out, or give it to "
            "the transform."
        )
    return given
