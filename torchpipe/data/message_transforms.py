"""Rows of the common layouts into messages.

Each transform turns one row into ``{"messages": [Message, ...]}`` and leaves the row as it is; what it can't turn into
messages it refuses. Pictures are loaded at once. Transforms hold nothing but their settings, so one object serves many
threads and can be pickled.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from torchpipe.data.columns import resolve_column_map, text_cell
from torchpipe.data.image_tags import check_image_tag, place_images
from torchpipe.data.images import image_reader
from torchpipe.data.masking import MaskingStrategy, resolve_masking_strategy
from torchpipe.data.messages import Message
from torchpipe.data.named_columns import NamesColumns
from torchpipe.data.turns import as_system_prompt, finished, messages_of, tools_of, with_system_of
from torchpipe.errors import ConfigError

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


class InputOutputToMessages(NamesColumns):
    """A row with one question and one answer into a user and an assistant message.

    Where the row has a picture, or a list of them, they stand in front of the question.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's columns for ``input``, ``output`` and, optionally, ``image``; None: they have these names.
        new_system_prompt: the text of a system message to put first; None: no system message.
        image_dir: the folder that the pictures' paths start from; None: the working folder. It needs an ``image`` in
            ``column_map``, if there is a ``column_map``.
        masking_strategy: which messages are trained on; None: the assistant's.
        allow_remote: False refuses pictures at http(s) addresses; nothing is fetched.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks a column, and a DataError when a column is not text or a picture
    can't be loaded.

    >>> transform = InputOutputToMessages(column_map={"input": "question", "output": "answer"})
    >>> [message.masked for message in transform({"question": "1 + 1?", "answer": "2"})["messages"]]
    [True, False]
    """

    optional_columns: ClassVar[Mapping[str, str]] = {"image": "image"}

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        image_dir: str | Path | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
        *,
        allow_remote: bool = True,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(column_map, required=("input", "output"), optional=self.optional_columns)
        self.new_system_prompt = as_system_prompt(new_system_prompt)
        self.images = image_reader(image_dir, allow_remote)
        if image_dir is not None and column_map and "image" not in column_map:
            raise ConfigError(
                f"image_dir={str(image_dir)!r} is for a column of pictures, and column_map names none for 'image'."
            )

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, list[Message]]:
        """``{"messages": [system?, user, assistant]}``."""
        columns = self.column_map
        question = text_cell(sample, columns["input"], "input")
        images = self.images.images(sample.get(columns["image"]), columns["image"]) if "image" in columns else []
        parts = [{"type": "image", "content": image} for image in images]
        messages = [
            Message("user", [*parts, {"type": "text", "content": question}] if parts else question),
            Message("assistant", text_cell(sample, columns["output"], "output")),
        ]
        return {"messages": finished(messages, self.new_system_prompt, self.masking_strategy)}


class AlpacaToMessages(NamesColumns):
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

    optional_columns: ClassVar[Mapping[str, str]] = {"input": "input"}

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: Mapping[str, str | None] | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ALL
        )
        self.column_map = resolve_column_map(
            column_map, required=("instruction", "output"), optional=self.optional_columns
        )

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, list[Message]]:
        """``{"messages": [user, assistant]}``."""
        columns = self.column_map
        instruction = text_cell(sample, columns["instruction"], "instruction")
        if "input" not in columns or sample.get(columns["input"]) in (None, ""):
            prompt = ALPACA_PROMPT_NO_INPUT.format(instruction=instruction)
        else:
            given = text_cell(sample, columns["input"], "input")
            prompt = ALPACA_PROMPT.format(instruction=instruction, input=given)
        answer = text_cell(sample, columns["output"], "output")
        messages = [Message("user", prompt), Message("assistant", answer)]
        return {"messages": finished(messages, None, self.masking_strategy)}


class ShareGPTToMessages(NamesColumns):
    """A row with a list of ``{"from": speaker, "value": text}`` turns into messages.

    The speakers are system, human and gpt, and for tools function_call, whose value is a call or a list of calls as
    JSON text, and observation; user, assistant, developer, tool and function_response are understood as well. A turn
    may have the other keys that :func:`~torchpipe.data.from_openai` reads, and those of
    :func:`~torchpipe.data.turn_flags.turn_flags`, which win over the strategy. Where the row has an ``image`` column,
    its picture or list of pictures stands where the user turns have ``image_tag``, in order, one for each tag.
    Rows without that column are text, tags and all.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's columns for ``conversations`` and, optionally, ``image``, ``tools`` and ``system``; None:
            they have these names. An optional one that leads to null is not read.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        image_dir: the folder that the pictures' paths start from; None: the working folder.
        image_tag: what stands for a picture in the text; None puts all pictures in front of the first user turn.
        masking_strategy: which messages are trained on; None: the assistant's.
        allow_remote: False refuses pictures at http(s) addresses; nothing is fetched.
        split_reasoning: True takes a ``<think>...</think>`` at the start of an assistant's text out of it, as the
            message's ``reasoning``; False leaves it in the text.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks the column or a turn lacks a key, and a DataError when a turn
    has another speaker or no text, a picture can't be loaded, or there are more or fewer tags than pictures.

    >>> row = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
    >>> [message.role for message in ShareGPTToMessages()(row)["messages"]]
    ['user', 'assistant']
    """

    optional_columns: ClassVar[Mapping[str, str]] = {"image": "image", "tools": "tools", "system": "system"}

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        image_dir: str | Path | None = None,
        image_tag: str | None = "<image>",
        masking_strategy: str | MaskingStrategy | None = None,
        *,
        allow_remote: bool = True,
        split_reasoning: bool = False,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(column_map, required=("conversations",), optional=self.optional_columns)
        self.new_system_prompt = as_system_prompt(new_system_prompt)
        self.images = image_reader(image_dir, allow_remote)
        self.split_reasoning = split_reasoning
        self.image_tag = image_tag
        if image_tag is not None:
            check_image_tag(image_tag)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"messages": [...]}``, one for each turn, and the row's ``tools``, where it has any."""
        columns = self.column_map
        messages = messages_of(
            sample,
            columns["conversations"],
            "conversations",
            style="sharegpt",
            read_image=None,
            split_reasoning=self.split_reasoning,
        )
        if (column := columns.get("image")) is not None and column in sample:
            images = self.images.images(sample[column], column)
            asking = [message for message in messages if message.role == "user"]
            contents = place_images([m.text_content for m in asking], image_tag=self.image_tag, images=images)
            for message, content in zip(asking, contents, strict=True):
                message.content = content
        messages = with_system_of(sample, columns, messages)
        done = finished(messages, self.new_system_prompt, self.masking_strategy)
        return {"messages": done, **tools_of(sample, columns)}


class OpenAIToMessages(NamesColumns):
    """A row with a list of ``{"role": ..., "content": ...}`` turns, as in OpenAI's chat API, into messages.

    A content is text, or a list of parts: ``{"type": "text", "text": ...}`` and ``{"type": "image_url", "image_url":
    {"url": ...}}``, whose url is a path, an http(s) address or a ``data:`` URL. Calls, reasoning, names and the other
    roles are read as :func:`~torchpipe.data.from_openai` reads them, and what a turn says about being trained on (see
    :func:`~torchpipe.data.turn_flags.turn_flags`) wins over the strategy. ``eot`` is False on tool and ipython
    messages, and on an assistant message whose result comes next.

    Args:
        train_on_input: deprecated, use ``masking_strategy``.
        column_map: the row's columns for ``messages`` and, optionally, ``tools`` and ``system``; None: they have these
            names. An optional one that leads to null is not read.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        masking_strategy: which messages are trained on; None: the assistant's.
        image_dir: the folder that the pictures' paths start from; None: the working folder.
        allow_remote: False refuses pictures at http(s) addresses; nothing is fetched.
        split_reasoning: True takes a ``<think>...</think>`` at the start of an assistant's text out of it, as the
            message's ``reasoning``; False leaves it in the text.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when the row lacks the column or a turn lacks a key, and a DataError when a turn
    has an unknown role, no text, a part of another type, a picture that can't be loaded, or what a message has no place
    for.

    >>> row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    >>> [message.text_content for message in OpenAIToMessages(new_system_prompt="Be kind.")(row)["messages"]]
    ['Be kind.', 'Hi', 'Hello']
    """

    optional_columns: ClassVar[Mapping[str, str]] = {"tools": "tools", "system": "system"}

    def __init__(
        self,
        train_on_input: bool | None = None,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
        *,
        image_dir: str | Path | None = None,
        allow_remote: bool = True,
        split_reasoning: bool = False,
    ) -> None:
        self.masking_strategy = resolve_masking_strategy(
            train_on_input, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.column_map = resolve_column_map(column_map, required=("messages",), optional=self.optional_columns)
        self.new_system_prompt = as_system_prompt(new_system_prompt)
        self.images = image_reader(image_dir, allow_remote)
        self.split_reasoning = split_reasoning

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"messages": [...]}``, one for each turn, and the row's ``tools``, where it has any."""
        columns = self.column_map
        messages = messages_of(
            sample,
            columns["messages"],
            "messages",
            style="openai",
            read_image=self.images.image,
            split_reasoning=self.split_reasoning,
        )
        messages = with_system_of(sample, columns, messages)
        done = finished(messages, self.new_system_prompt, self.masking_strategy)
        return {"messages": done, **tools_of(sample, columns)}
