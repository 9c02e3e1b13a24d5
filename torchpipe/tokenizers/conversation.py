"""What a format with a layout is given to write: messages, tools, and what the caller has set."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NoReturn

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.messages import RESULT_ROLES, Message
from torchpipe.errors import ConfigError, MessageError, UnwritableError

OnLost = Literal["refuse", "split", "drop", "common_prefix"]
"""What becomes of a row of which the publisher's format leaves something out (earlier reasoning, a text beside calls, a
speaker's name). The names are those of :class:`~torchpipe.tokenizers.chat_template.ChatTemplateTokenizer`'s choices of
the same meaning.

``refuse``: an error that names turn and field. ``split``: a turn before which, or of which, the format writes something
else later on becomes a sample of its own, that ends with it; what is lost even there is refused. ``drop``: the row is
left out. ``common_prefix``: what the publisher writes is written, and the trace says of the turn what was left out.
"""

SYSTEM_ROLES = ("system", "developer")


@dataclass(frozen=True, kw_only=True, eq=False)
class Conversation:
    """Messages, tools and options, for one format.

    Attributes:
        messages: the conversation; at least one.
        tools: what the assistant may call: OpenAI's dicts, as the data has them.
        options: every option of the format, by name.
        format_name: what errors call the format.
        on_unproved: see :data:`OnLost`.
        adds_prompt: whether the conversation ends where a model goes on.
        ends_sampled: whether the last message is what a model sampled after the others, of which nothing may be lost.
        part_join: what joins the text parts of one message.
        strips, strips_system: whether texts, and those of the system, lose the white space around them.
        lost: what was left out, by message; filled while the conversation is written.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    format_name: str = "chat"
    on_unproved: OnLost = "refuse"
    adds_prompt: bool = False
    ends_sampled: bool = False
    part_join: str = ""
    strips: bool = False
    strips_system: bool = False
    lost: dict[int, list[str]] = field(default_factory=dict)

    def text(self, index: int) -> str:
        """The text of a message.

        Raises:
            DataError: the message holds an image.
        """
        message = self.messages[index]
        content = message.content
        if len(content) == 1 and content[0]["type"] == "text":
            text: str = content[0]["content"]
        elif any(part["type"] != "text" for part in content):
            self.refuse(index, "holds an image, and the format writes text alone")
        else:
            text = self.part_join.join(part["content"] for part in content)
        if not (self.strips or self.strips_system) or message.role in RESULT_ROLES:
            return text
        return text.strip() if (self.strips_system if message.role in SYSTEM_ROLES else self.strips) else text

    def functions(self) -> list[Mapping[str, Any]]:
        """What the tools say under ``function``, or themselves, for formats that do not write schemas as they are.

        Raises:
            DataError: a tool is no function with a name.
        """
        functions = [tool.get("function", tool) for tool in self.tools]
        for index, function in enumerate(functions):
            if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
                raise UnwritableError(
                    f"Tool {index} of the row is no function with a name, and the {self.format_name} format writes "
                    "functions alone. A tool is {'type': 'function', 'function': {'name', 'description', "
                    "'parameters'}}."
                )
        return functions

    @cached_property
    def first_user(self) -> int:
        """Index of the first message of the user; -1 where there is none."""
        return next((index for index, message in enumerate(self.messages) if message.role == "user"), -1)

    @cached_property
    def last_user(self) -> int:
        """Index of the last message of the user; -1 where there is none."""
        users = [index for index, message in enumerate(self.messages) if message.role == "user"]
        return users[-1] if users else -1

    @cached_property
    def last_assistant(self) -> int:
        """Index of the last message, if it is the assistant's and complete; else -1."""
        last = len(self.messages) - 1
        return last if self.messages[last].role == "assistant" and not self.adds_prompt else -1

    def is_result(self, index: int) -> bool:
        """Whether a message is the result of a call."""
        return self.messages[index].role in RESULT_ROLES

    def called_name(self, index: int) -> str:
        """The name of the tool whose result a message is: its own, or that of the call with its id.

        Raises:
            DataError: neither tells.
        """
        message = self.messages[index]
        if message.name:
            return message.name
        calls = [call for earlier in self.messages[:index] for call in earlier.tool_calls]
        named = [call.name for call in calls if call.id is not None and call.id == message.tool_call_id]
        if not named:
            self.refuse(index, "is the result of a call, and neither 'name' nor 'tool_call_id' says of which")
        return named[-1]

    def lose(
        self,
        index: int,
        what: str,
        *,
        instead: str = "take it out in a message_transform",
        later_on: bool = False,
    ) -> None:
        """Notes that the format leaves something of a message out.

        Args:
            index: the message.
            what: what is left out.
            instead: what one can do about it.
            later_on: whether it is written in a conversation that ends with the message.

        Raises:
            DataError: it may not be lost.
        """
        role = self.messages[index].role
        in_no_sample = self.on_unproved == "split" and not later_on and role != "assistant"
        if self.on_unproved == "refuse" or in_no_sample or (self.ends_sampled and index == len(self.messages) - 1):
            split = "'split' to train it in a sample that ends with it, or " if later_on else ""
            raise UnwritableError(
                f"Message {index} ({role}): the {self.format_name} format leaves its {what} out. "
                f"{instead[:1].upper()}{instead[1:]}, drop the row with filter_fn or on_unproved='drop', or set "
                f"on_unproved={split}'common_prefix' to write what the publisher's own code writes."
            )
        self.lost.setdefault(index, []).append(what)

    def lose_tools(self) -> None:
        """Notes that the format says nothing of the tools.

        Raises:
            DataError: they may not be lost.
        """
        if self.on_unproved in ("refuse", "split"):
            raise UnwritableError(
                f"The row offers tools, and the {self.format_name} format leaves them out. Write them into the "
                "system's text in a message_transform, drop the row with filter_fn or on_unproved='drop', or set "
                "on_unproved='common_prefix' to write what the publisher's own template writes."
            )
        self.lost.setdefault(-1, []).append("tools")

    def refuse(self, index: int, why: str) -> NoReturn:
        """Raises the error of a message that the format has no place for.

        Raises:
            DataError: always.
        """
        raise UnwritableError(
            f"Message {index} ({self.messages[index].role}) {why} ({self.format_name} format). Mend the row in a "
            "message_transform, or drop it with filter_fn."
        )


def tools_of(value: Any) -> list[Mapping[str, Any]]:
    """The tools of a row: a list of dicts, or JSON text of one; none of null.

    Raises:
        DataError: it is neither, or a tool is no dict.

    >>> tools_of('[{"type": "function", "function": {"name": "now"}}]')
    [{'type': 'function', 'function': {'name': 'now'}}]
    """
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except ValueError as error:
            raise MessageError(f"The row's tools are text that is no JSON ({error}): {value[:60]!r}.") from None
    if value is None:
        return []
    if not isinstance(value, Sequence):
        raise MessageError(f"The row's tools are a {type(value).__name__}. They must be a list of dicts, or JSON text.")
    for index, tool in enumerate(value):
        if not isinstance(tool, Mapping):
            raise MessageError(
                f"Tool {index} of the row is a {type(tool).__name__}. A tool is a dict, as of OpenAI's API."
            )
    return list(value)


def checked_options(given: Mapping[str, Any], known: Mapping[str, Any], format_name: str) -> dict[str, Any]:
    """Every option of a format: the given ones, and the defaults of the others.

    Raises:
        ConfigError: the format has no such option.
    """
    for name in given:
        if name not in known:
            raise ConfigError(
                f"The {format_name} format has no option {name!r}. It has {listed(known) or 'none'}."
                f"{did_you_mean(name, known)}"
            )
    return {**known, **given}
