"""What a format is written in: control tokens, slots, and text."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Control:
    """A control token, by its text. It is written into a sample by id, never by encoding that text.

    Attributes:
        text: the token's text.
        aliases: what other files of the family call the same token; the first of all that has an id is meant.
    """

    text: str
    aliases: tuple[str, ...] = ()

    def id_in(self, control_tokens: Mapping[str, int]) -> int | None:
        """The token's id, None where it has none."""
        return next((control_tokens[text] for text in (self.text, *self.aliases) if text in control_tokens), None)


class Slot(Enum):
    """A place in a format that each message fills."""

    ROLE = "role"
    """What the format calls the message's role, as text."""
    ROLE_CONTROL = "role_control"
    """The control token of that name."""


Piece = Control | Slot | str
"""A control token, a slot, or plain text."""

Pieces = tuple[Piece, ...]
