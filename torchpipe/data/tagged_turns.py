"""Turns whose keys and speakers have names of their own, to messages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.masking import MaskingStrategy
from torchpipe.data.message_transforms import OpenAIToMessages, ShareGPTToMessages
from torchpipe.data.openai_dicts import ROLE_NAMES
from torchpipe.data.turns import SHAREGPT_ROLES, turns_of
from torchpipe.errors import ColumnError, ConfigError, MessageError

SPEAKERS: dict[str, str] = {**SHAREGPT_ROLES, **ROLE_NAMES, "function_call": "function_call"}
"""Every speaker that data sets are known to have, and the role that it is read as."""


class TaggedTurnsToMessages:
    """A row with a list of turns into messages, whatever the turns' keys and speakers are called.

    Each turn is read as :class:`~torchpipe.data.OpenAIToMessages` reads one, under other names.

    Args:
        role_key, content_key: the keys of a turn: who speaks, and what.
        speakers: the data's speaker -> the role: "user", "assistant", "system", "tool", "function_call" (an
            assistant's call as JSON text), "observation" (its result) or "developer"; None: all that are known.
        column_map: the row's columns for ``messages`` and, optionally, ``tools``, ``system`` and ``image``: pictures
            whose places in the users' texts ``image_tag`` marks.
        image_tag: see :class:`~torchpipe.data.ShareGPTToMessages`.
        new_system_prompt, masking_strategy, image_dir, allow_remote, split_reasoning: see
            :class:`~torchpipe.data.OpenAIToMessages`.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks the column or a turn lacks a key, and a DataError when a turn has
    another speaker, or holds what a message would lose.

    >>> transform = TaggedTurnsToMessages("who", "says", speakers={"q": "user", "a": "assistant"})
    >>> row = {"messages": [{"who": "q", "says": "1 + 1?"}, {"who": "a", "says": "2"}]}
    >>> [(message.role, message.text_content) for message in transform(row)["messages"]]
    [('user', '1 + 1?'), ('assistant', '2')]
    """

    def __init__(
        self,
        role_key: str,
        content_key: str,
        *,
        speakers: Mapping[str, str] | None = None,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
        image_dir: str | Path | None = None,
        image_tag: str | None = "<image>",
        allow_remote: bool = True,
        split_reasoning: bool = False,
    ) -> None:
        self.role_key = role_key
        self.content_key = content_key
        self.speakers = dict(SPEAKERS if speakers is None else speakers)
        for speaker, role in self.speakers.items():
            if role not in ROLE_NAMES:
                raise ConfigError(
                    f"The speaker {speaker!r} is to be {role!r}; a role is one of {listed(ROLE_NAMES)}."
                    f"{did_you_mean(role, ROLE_NAMES)}"
                )
        names = dict(column_map or {})
        self.column = names.pop("messages", "messages") or "messages"
        options: dict[str, Any] = {
            "new_system_prompt": new_system_prompt,
            "masking_strategy": masking_strategy,
            "image_dir": image_dir,
            "allow_remote": allow_remote,
            "split_reasoning": split_reasoning,
        }
        if names.get("image") is None:
            names.pop("image", None)
            self.inner = OpenAIToMessages(column_map={"messages": self.column, **names}, **options)
            self._inner_keys = ("role", "content")
        else:
            names = {"conversations": self.column, **names}
            self.inner = ShareGPTToMessages(column_map=names, image_tag=image_tag, **options)
            self._inner_keys = ("from", "value")

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"messages": [...]}``, one for each turn, and the row's ``tools``, where it has any."""
        turns = [self._turn(turn, index) for index, turn in enumerate(turns_of(sample, self.column, "messages"))]
        return self.inner({**sample, self.column: turns})

    def _turn(self, turn: Any, index: int) -> dict[str, Any]:
        if not isinstance(turn, Mapping):
            raise MessageError(f"Turn {index} is a {type(turn).__name__}; a turn is a dict with {listed(self._keys)}.")
        speaker = turn.get(self.role_key)
        if speaker is None or self.content_key not in turn:
            missing = [key for key in self._keys if turn.get(key) is None]
            raise ColumnError(f"Turn {index} lacks {listed(missing)}; it has {listed(turn)}.")
        role = self.speakers.get(speaker) if isinstance(speaker, str) else None
        if role is None:
            raise MessageError(
                f"Turn {index} has the speaker {speaker!r}; there are {listed(self.speakers)}."
                f"{did_you_mean(speaker, self.speakers)} Drop such rows with a filter_fn, or name it."
            )
        who, what = self._inner_keys
        rest = {key: value for key, value in turn.items() if key not in (*self._keys, who, what)}
        return {who: role, what: turn[self.content_key], **rest}

    @property
    def _keys(self) -> tuple[str, str]:
        return self.role_key, self.content_key
