"""Rows of any known shape into messages, decided for each row."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.columns import refuse_no_row
from torchpipe.data.masking import MaskingStrategy, mask_messages, resolve_masking_strategy
from torchpipe.data.message_transforms import (
    AlpacaToMessages,
    InputOutputToMessages,
    OpenAIToMessages,
    ShareGPTToMessages,
)
from torchpipe.data.messages import Message
from torchpipe.data.schema import Shape
from torchpipe.data.shape_finder import Found, ShapeFinder
from torchpipe.data.tagged_turns import TaggedTurnsToMessages
from torchpipe.data.turns import as_system_prompt, tools_of, with_system_of
from torchpipe.errors import ColumnError, ConfigError, MediaError

_MEDIA = ("image", "images", "video", "videos", "audio", "audios")
_LEFT_OUT = ("tools", "functions", "system", "system_prompt")
"""Columns that a column_map may lead to null, which leaves them out."""
_PARTS = ("history", "context", "instruction", "input", "reasoning_content", "reasoning", "thinking")
"""Columns that are a part of what is asked and answered, where that stands in columns of its own."""
_EXTRA = (*_LEFT_OUT, *_MEDIA, *_PARTS)


class DetectedToMessages:
    """A row of any known shape (:data:`torchpipe.data.schema.SHAPES`) into messages: each row by its own.

    A row's messages are those of the shape's own transform: :class:`~torchpipe.data.OpenAIToMessages`,
    :class:`~torchpipe.data.ShareGPTToMessages`, :class:`~torchpipe.data.InputOutputToMessages`,
    :class:`~torchpipe.data.AlpacaToMessages`. The columns ``system`` (or ``system_prompt``) and ``tools`` (or
    ``functions``) are read in every shape. A null column is one that isn't there.

    A question and its answer in columns of their own may have more beside them: ``history``, ``context``, ``input``,
    ``instruction``, ``reasoning``, ``thinking``. A row with such a column that its shape doesn't read is refused, for
    its messages would lack a part; naming its shape in ``shapes`` reads it without.

    Args:
        column_map: our column -> the row's, as ``{"input": "toy_input", "output": "toy_output"}``: before its shape is
            looked for, the row's column is renamed. ``tools``, ``functions``, ``system`` or ``system_prompt`` that lead
            to None are left out.
        new_system_prompt: the text of a system message that replaces the row's own; None: the row's stay.
        masking_strategy: which messages are trained on; None: the assistant's, in every shape. Of a prompt of turns
            with a completion, None trains the completion alone.
        image_dir, allow_remote, split_reasoning: see :class:`~torchpipe.data.OpenAIToMessages`.
        shapes: names of the only shapes to consider; None: all.

    Raises:
        ConfigError: an argument can't be used.

    Calling it raises a ColumnError when no shape fits the row or several do, which names the row's columns and the
    nearest shapes, or when the shape leaves a part of the conversation unread; a MediaError when the row has pictures,
    audio or video that its shape does not read; and what the shape's transform raises.

    >>> transform = DetectedToMessages()
    >>> rows = [{"question": "1 + 1?", "answer": "2"}, {"messages": [{"role": "user", "content": "Hi"}]}]
    >>> [transform(row)["messages"][0].text_content for row in rows]
    ['1 + 1?', 'Hi']
    """

    optional_columns: ClassVar[Mapping[str, str]] = {name: name for name in _LEFT_OUT}
    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_finder", "_plain", "_transforms"})

    def __init__(
        self,
        *,
        column_map: Mapping[str, str | None] | None = None,
        new_system_prompt: str | None = None,
        masking_strategy: str | MaskingStrategy | None = None,
        image_dir: str | Path | None = None,
        allow_remote: bool = True,
        split_reasoning: bool = False,
        shapes: Sequence[str] | None = None,
    ) -> None:
        self.column_map = dict(column_map or {})
        for ours, theirs in self.column_map.items():
            if not isinstance(theirs, str) and (theirs is not None or ours not in _LEFT_OUT):
                raise ConfigError(f"column_map[{ours!r}] is {theirs!r}; it must be the name of a column.")
        self.new_system_prompt = as_system_prompt(new_system_prompt)
        self.masking_strategy = resolve_masking_strategy(
            None, masking_strategy, default=MaskingStrategy.TRAIN_ON_ASSISTANT
        )
        self.masks_prompts = masking_strategy is None
        self.image_dir = image_dir
        self.allow_remote = allow_remote
        self.split_reasoning = split_reasoning
        self.shapes = None if shapes is None else [shapes] if isinstance(shapes, str) else list(shapes)
        self._start()

    def _start(self) -> None:
        """Begins to remember which shapes and transforms rows have led to."""
        self._finder = ShapeFinder(self.shapes, also=_EXTRA)
        self._plain: dict[str, Callable[[Any], dict[str, Any]]] = {}
        self._transforms: dict[tuple[str, str | None, str], Callable[[Any], dict[str, Any]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: held for name, held in vars(self).items() if name not in self._unfingerprinted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """``{"messages": [...]}``, and the row's ``tools``, where it has any."""
        refuse_no_row(sample)
        row = self._renamed(sample) if self.column_map else sample
        shape, extra = self._found(row, sample)
        if not extra:
            made = self._plain.get(shape.name)
            if made is None:
                made = self._plain[shape.name] = self._made(shape, None, "tools")
            return made(row)
        image = self._image_column(row, shape)
        self._refuse_unread(row, shape)
        tools = "functions" if row.get("tools") is None and row.get("functions") is not None else "tools"
        if not row.get("system") and row.get("system_prompt"):
            row = {**row, "system": row["system_prompt"]}
        result = self._transform(shape, image, tools)(row)
        return result if shape.reading not in ("pair", "alpaca") else self._with_columns(result, row, tools)

    @property
    def named_columns(self) -> dict[str, str]:
        """The columns of ``column_map``: a row may lack one, which at least one row has to have."""
        return {ours: column for ours, column in self.column_map.items() if column is not None}

    def shape_of(self, sample: Mapping[str, Any]) -> Shape:
        """The shape of a row.

        Raises:
            ColumnError: as calling it.
        """
        refuse_no_row(sample)
        return self._found(self._renamed(sample) if self.column_map else sample, sample).shape

    def _found(self, row: Mapping[str, Any], sample: Mapping[str, Any]) -> Found:
        """What the finder says of the row, which is the sample with its columns renamed."""
        try:
            return self._finder.found(row)
        except ColumnError as error:
            if missing := self._missing(sample):
                near = did_you_mean(missing[0], sample)
                raise ColumnError(
                    f"The row has no column {missing[0]!r}, which column_map names; it has {listed(sample)}.{near} "
                    "Without it, the row is of no known shape."
                ) from error
            raise

    def _missing(self, sample: Mapping[str, Any]) -> list[str]:
        """The columns that column_map names and the row lacks."""
        return [column for column in self.column_map.values() if column is not None and column not in sample]

    def _renamed(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        missing = self._missing(sample)
        if missing and len(missing) == sum(column is not None for column in self.column_map.values()):
            raise ColumnError(
                f"The row has none of column_map's {listed(missing)}; it has {listed(sample)}. Name the right ones."
            )
        left_out = {ours for ours, theirs in self.column_map.items() if theirs is None}
        taken = {theirs: ours for ours, theirs in self.column_map.items() if theirs is not None}
        kept = {column: value for column, value in sample.items() if column not in taken and column not in left_out}
        return {**kept, **{ours: sample[theirs] for theirs, ours in taken.items() if theirs in sample}}

    def _image_column(self, row: Mapping[str, Any], shape: Shape) -> str | None:
        held = [column for column in _MEDIA if row.get(column) not in (None, [], "")]
        read = {"sharegpt": ("image", "images"), "pair": ("image", "images")}.get(shape.reading or "", ())
        unread = [column for column in held if column not in read]
        if unread or len(held) > 1:
            raise MediaError(
                f"The row has {listed(unread or held)}, which {shape.name} does not read: its messages would speak of "
                "what is not there. Use a message_transform that reads it, or leave the column out of the source."
            )
        return held[0] if held else None

    def _refuse_unread(self, row: Mapping[str, Any], shape: Shape) -> None:
        """Refuses a row whose messages would lack a part of what it says."""
        if row.get("system") and row.get("system_prompt") and row["system"] != row["system_prompt"]:
            raise ColumnError(
                "The row has different texts in 'system' and 'system_prompt'. Leave one out of the source."
            )
        if self.shapes is not None or shape.reading in ("openai", "sharegpt", "tagged"):
            return  # one was chosen by name; or turns, which are whole conversations
        unread = [column for column in _PARTS if column not in shape.columns and row.get(column) not in (None, "", [])]
        if unread:
            raise ColumnError(
                f"The row has {listed(unread)}, which {shape.name} does not read: its messages would lack a part of "
                f"the conversation. Use sft_dataset with a message_transform that reads it, or set "
                f"shapes=[{shape.name!r}] to read the rows without."
            )

    def _transform(self, shape: Shape, image: str | None, tools: str) -> Callable[[Any], dict[str, Any]]:
        key = (shape.name, image, tools)
        if key not in self._transforms:
            self._transforms[key] = self._made(shape, image, tools)
        return self._transforms[key]

    def _made(self, shape: Shape, image: str | None, tools: str) -> Callable[[Any], dict[str, Any]]:
        reading, names = shape.reading, shape.names
        whose: dict[str, Any] = {
            "new_system_prompt": self.new_system_prompt,
            "masking_strategy": self.masking_strategy,
            "image_dir": self.image_dir,
            "allow_remote": self.allow_remote,
        }
        turns: dict[str, Any] = {**whose, "split_reasoning": self.split_reasoning}
        if reading == "openai":
            return OpenAIToMessages(column_map={"messages": names[0], "tools": tools}, **turns)
        if reading == "sharegpt":
            columns = {"conversations": names[0], "tools": tools, "image": image}
            return ShareGPTToMessages(column_map=columns, **turns)
        if reading == "tagged":
            assert shape.keys is not None
            return TaggedTurnsToMessages(
                shape.keys[0], shape.keys[1], column_map={"messages": names[0], "tools": tools}, **turns
            )
        if reading == "alpaca":
            instruction, given, output = names
            columns = {"instruction": instruction, "input": given, "output": output}
            return self._with_prompt(AlpacaToMessages(column_map=columns, masking_strategy=self.masking_strategy))
        if reading == "prompt_completion":
            inner = OpenAIToMessages(column_map={"messages": "messages", "tools": tools}, **turns)
            return _PromptCompletion(inner, masks_prompt=self.masks_prompts)
        columns = {"input": names[0], "output": names[1], **({"image": image} if image else {})}
        whose |= {} if image else {"image_dir": None}
        pair = InputOutputToMessages(column_map=columns, **whose)
        return pair if names[1] != "answers" else lambda row: pair({**row, "answers": row["answers"][0]})

    def _with_prompt(self, transform: AlpacaToMessages) -> Callable[[Any], dict[str, Any]]:
        """The transform, with the new system prompt, which it has no argument for."""
        if self.new_system_prompt is None:
            return transform
        prompt = self.new_system_prompt
        return lambda row: {"messages": [Message("system", prompt, masked=True), *transform(row)["messages"]]}

    def _with_columns(self, result: dict[str, Any], row: Mapping[str, Any], tools: str) -> dict[str, Any]:
        """The messages of a row of two or three texts, with the row's system message and tools."""
        messages = result["messages"]
        if self.new_system_prompt is None and row.get("system"):
            messages = with_system_of(row, {"system": "system"}, messages)
            mask_messages(messages, self.masking_strategy)
        return {"messages": messages, **tools_of(row, {"tools": tools})}


class _PromptCompletion:
    """A prompt and a completion, at least one of which is a list of turns, into one conversation."""

    def __init__(self, inner: OpenAIToMessages, *, masks_prompt: bool) -> None:
        self._inner = inner
        self._masks_prompt = masks_prompt

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        prompt, completion = sample["prompt"], sample["completion"]
        before = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        after = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else list(completion)
        result = self._inner({**sample, "messages": [*before, *after]})
        if self._masks_prompt:
            messages: list[Message] = result["messages"]
            for message in messages[: len(messages) - len(after)]:
                message.masked = True
        return result
