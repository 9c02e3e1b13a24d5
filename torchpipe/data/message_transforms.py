"""Rows of the common layouts into messages.

Each transform turns one row into ``{"messages": [Message, ...]}`` and leaves the row as it is; what it can't turn into
text messages it refuses. They hold nothing but their settings, so one object serves many threads and can be pickled.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.columns import not_text, refuse_image, resolve_column_map, text_cell
from torchpipe.data.messages import ROLES, MaskingStrategy, Message, Role, mask_messages, resolve_masking_strategy
from torchpipe.data.turns import is_untrained, openai_content, refuse_lost_fields, speaker_and_text, turns_of
from torchpipe.errors import ConfigError, DataError

# The prompts of Stanford Alpaca (tatsu-lab/stanford_alpaca, train.py, PROMPT_DICT; Apache-2.0), which models were
# trained on to the byte, and after which torchtune ends the user message with a line break.
ALPACA_PROMPT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n"
)
ALPACA_PROMPT_NO_INPUT = (
    "Below is an instruction that describes a task. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:\n"
)

SHAREGPT_ROLES: dict[str, Role] = {
    "system": "system",
    "human": "user",
    "gpt": "assistant",
    "user": "user",
    "assistant": "assistant",
}

_IMAGE_TAG = "<image>"


class InputOutputToMessages:
    """A row with one question and one answer into a user and an assistant message.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's columns for ``input`` and ``output`` (and ``image``, which must be empty); None: they
            have these names.
        new_system_prompt: the text of a system message to put first; None: no system message.
        image_dir: not supported: conversations are of text.
        masking_strategy: which messages are trained on; None: the assistant's.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks a column, and a DataError when a column is not text or the row
    has an image.

    >>> transform = InputOutputToMessages(column_map={"input": "question", "output": "answer"})
    >>> [message.masked for message in transform({"question": "1 + 1?", "answer": "2"})["messages"]]
    [True, False]
    """

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: dict[str, str] | None = None,
        new_system_prompt: str | None = None,
        image_dir: str | Path | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(column_map, required=("input", "output"), optional=("image",))
        self.new_system_prompt = _system_prompt(new_system_prompt)
        _refuse_image_settings(image_dir)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, list[Message]]:
        """``{"messages": [system?, user, assistant]}``."""
        columns = self.column_map
        _refuse_images(sample, columns["image"])
        messages = [
            Message("user", text_cell(sample, columns["input"], "input")),
            Message("assistant", text_cell(sample, columns["output"], "output")),
        ]
        return _finished(messages, self.new_system_prompt, self.masking_strategy)


class AlpacaToMessages:
    """A row with an instruction, perhaps an input, and an output into a user and an assistant message.

    The instruction and the input are put into Alpaca's prompt as they are: braces in them mean nothing.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's columns for ``instruction``, ``output`` and, optionally, ``input``; None: they have
            these names. A row without an input, or with a null or empty one, gets the prompt for no input.
        masking_strategy: which messages are trained on; None: **all** of them, unlike the other transforms.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks a column, and a DataError when a column is not text.

    >>> row = {"instruction": "Say {{name}}.", "input": "", "output": "{{name}}"}
    >>> AlpacaToMessages()(row)["messages"][0].text_content[-46:]
    '### Instruction:\\nSay {{name}}.\\n\\n### Response:\\n'
    """

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: dict[str, str] | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ALL
        )
        self.column_map = resolve_column_map(column_map, required=("instruction", "output"), optional=("input",))

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, list[Message]]:
        """``{"messages": [user, assistant]}``."""
        columns = self.column_map
        instruction = text_cell(sample, columns["instruction"], "instruction")
        if sample.get(columns["input"]) in (None, ""):
            prompt = ALPACA_PROMPT_NO_INPUT.format(instruction=instruction)
        else:
            given = text_cell(sample, columns["input"], "input")
            prompt = ALPACA_PROMPT.format(instruction=instruction, input=given)
        messages = [Message("user", prompt), Message("assistant", text_cell(sample, columns["output"], "output"))]
        return _finished(messages, None, self.masking_strategy)


class ShareGPTToMessages:
    """A row with a list of ``{"from": speaker, "value": text}`` turns into messages.

    The speakers are system, human and gpt; user and assistant are understood as well.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's column for ``conversations`` (and ``image``, which must be empty); None: they have these
            names.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        image_dir: not supported: conversations are of text.
        image_tag: not supported: leave it at its default.
        masking_strategy: which messages are trained on; None: the assistant's.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks the column or a turn lacks a key, and a DataError when a turn
    has another speaker or no text, or the row has an image.

    >>> row = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
    >>> [message.role for message in ShareGPTToMessages()(row)["messages"]]
    ['user', 'assistant']
    """

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: dict[str, str] | None = None,
        new_system_prompt: str | None = None,
        image_dir: str | Path | None = None,
        image_tag: str | None = _IMAGE_TAG,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(column_map, required=("conversations",), optional=("image",))
        self.new_system_prompt = _system_prompt(new_system_prompt)
        _refuse_image_settings(image_dir, image_tag)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, list[Message]]:
        """``{"messages": [...]}``, one for each turn."""
        _refuse_images(sample, self.column_map["image"])
        messages = []
        for index, turn in enumerate(turns_of(sample, self.column_map["conversations"], "conversations")):
            speaker, text = speaker_and_text(
                turn, index, ("from", "value"), other=("role", "content"), other_style="openai"
            )
            role = SHAREGPT_ROLES.get(speaker) if isinstance(speaker, str) else None
            if role is None:
                raise DataError(
                    f"Turn {index} is from {speaker!r}; the speakers are {listed(SHAREGPT_ROLES)}."
                    f"{did_you_mean(speaker, SHAREGPT_ROLES)} Drop such rows with a filter_fn, or write a "
                    "message_transform that knows this speaker."
                )
            if not isinstance(text, str):
                raise DataError(f"The 'value' of turn {index} (from {speaker!r}) {not_text(text)}")
            messages.append(Message(role, text))
        return _finished(messages, self.new_system_prompt, self.masking_strategy)


class OpenAIToMessages:
    """A row with a list of ``{"role": ..., "content": ...}`` turns, as in OpenAI's chat API, into messages.

    A content is text, or a list of ``{"type": "text", "text": ...}`` parts. ``eot`` is False on tool and ipython
    messages, and on an assistant message whose result comes next.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's column for ``messages``; None: it has this name.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        masking_strategy: which messages are trained on; None: the assistant's.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks the column or a turn lacks a key, and a DataError when a turn
    has an unknown role, no text, a part that is not text, or calls or reasoning, which plain messages would lose.

    >>> row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    >>> [message.text_content for message in OpenAIToMessages(new_system_prompt="Be kind.")(row)["messages"]]
    ['Be kind.', 'Hi', 'Hello']
    """

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: dict[str, str] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(column_map, required=("messages",))
        self.new_system_prompt = _system_prompt(new_system_prompt)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, list[Message]]:
        """``{"messages": [...]}``, one for each turn."""
        messages: list[Message] = []
        untrained: list[Message] = []
        for index, turn in enumerate(turns_of(sample, self.column_map["messages"], "messages")):
            role, content = speaker_and_text(
                turn, index, ("role", "content"), other=("from", "value"), other_style="sharegpt"
            )
            if role not in ROLES:
                raise DataError(
                    f"Turn {index} has the role {role!r}; a role is one of {listed(ROLES)}.{did_you_mean(role, ROLES)} "
                    "Rename it in the source, or drop such rows with a filter_fn."
                )
            refuse_lost_fields(turn, index, role)
            is_result = role in ("tool", "ipython")
            if is_result and messages and messages[-1].role == "assistant":
                messages[-1].eot = False
            messages.append(Message(role, openai_content(content, index, role), eot=not is_result))
            if is_untrained(turn, index, role):
                untrained.append(messages[-1])
        result = _finished(messages, self.new_system_prompt, self.masking_strategy)
        for message in untrained:
            message.masked = True
        return result


def _finished(
    messages: list[Message], system_prompt: str | None, strategy: MaskingStrategy
) -> dict[str, list[Message]]:
    if system_prompt is not None:
        messages = [Message("system", system_prompt), *(m for m in messages if m.role != "system")]
    mask_messages(messages, strategy)
    return {"messages": messages}


def _system_prompt(new_system_prompt: Any) -> str | None:
    if new_system_prompt is not None and not isinstance(new_system_prompt, str):
        raise ConfigError(f"new_system_prompt={new_system_prompt!r} must be a string, or None to add nothing.")
    return new_system_prompt


def _refuse_image_settings(image_dir: str | Path | None, image_tag: str | None = _IMAGE_TAG) -> None:
    for name, value, default in (("image_dir", image_dir, None), ("image_tag", image_tag, _IMAGE_TAG)):
        if value != default:
            raise ConfigError(
                f"{name}={value!r} is for rows with images, but conversations are of text in this version. Remove it."
            )


def _refuse_images(row: Mapping[str, Any], mapped: str) -> None:
    refuse_image(row, mapped)
    if mapped != "image":
        refuse_image(row, "image")
