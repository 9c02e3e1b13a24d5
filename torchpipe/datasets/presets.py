"""Public data sets of the Hugging Face Hub, a row each: where it is, and which columns a general builder reads.

``samsum_dataset(tokenizer, packed=True)`` is the general builder with the row's source and columns; every option of the
general builder is taken, and ``source`` may name a copy of one's own.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from torchpipe.data.message_transforms import AlpacaToMessages, InputOutputToMessages, ShareGPTToMessages
from torchpipe.datasets.builders import Built, Strategy, sft_dataset
from torchpipe.datasets.text_completion import text_completion_dataset
from torchpipe.datasets.text_rows import TextBuilt
from torchpipe.sources import Source
from torchpipe.sources.file_source import names_files

ColumnMap = Mapping[str, str] | None
FilterFn = Callable[..., bool] | str | None


class AlpacaPreset(Protocol):
    """The builder of a public data set with instructions."""

    def __call__(
        self,
        tokenizer: Any,
        *,
        source: Source = ...,
        column_map: ColumnMap = None,
        train_on_input: bool | None = None,
        packed: bool = False,
        filter_fn: FilterFn = None,
        split: str = "train",
        masking_strategy: Strategy = None,
        split_across_pack: bool = False,
        **load_dataset_kwargs: Any,
    ) -> Built:
        """The data set; see :func:`~torchpipe.datasets.alpaca_dataset`."""
        ...


class ConversationPreset(Protocol):
    """The builder of a public data set with questions and answers, or conversations."""

    def __call__(
        self,
        tokenizer: Any,
        *,
        source: Source = ...,
        column_map: ColumnMap = None,
        train_on_input: bool | None = None,
        new_system_prompt: str | None = None,
        packed: bool = False,
        filter_fn: FilterFn = None,
        split: str = "train",
        masking_strategy: Strategy = None,
        split_across_pack: bool = False,
        **load_dataset_kwargs: Any,
    ) -> Built:
        """The data set; see :func:`~torchpipe.datasets.instruct_dataset` and
        :func:`~torchpipe.datasets.chat_dataset`.
        """
        ...


def _alpaca(name: str, hub: str, about: str) -> AlpacaPreset:
    def preset(
        tokenizer: Any,
        *,
        source: Source = hub,
        column_map: ColumnMap = None,
        train_on_input: bool | None = None,
        packed: bool = False,
        filter_fn: FilterFn = None,
        split: str = "train",
        masking_strategy: Strategy = None,
        split_across_pack: bool = False,
        **load_dataset_kwargs: Any,
    ) -> Built:
        return sft_dataset(
            tokenizer,
            source=source,
            message_transform=AlpacaToMessages(train_on_input, column_map, masking_strategy),
            filter_fn=filter_fn,
            packed=packed,
            split_across_pack=split_across_pack,
            split=split,
            **load_dataset_kwargs,
        )

    return _named(preset, name, about)


def _conversation(
    name: str, hub: str, transform: type[InputOutputToMessages | ShareGPTToMessages], columns: ColumnMap, about: str
) -> ConversationPreset:
    def preset(
        tokenizer: Any,
        *,
        source: Source = hub,
        column_map: ColumnMap = None,
        train_on_input: bool | None = None,
        new_system_prompt: str | None = None,
        packed: bool = False,
        filter_fn: FilterFn = None,
        split: str = "train",
        masking_strategy: Strategy = None,
        split_across_pack: bool = False,
        **load_dataset_kwargs: Any,
    ) -> Built:
        return sft_dataset(
            tokenizer,
            source=source,
            message_transform=transform(
                train_on_input=train_on_input,
                column_map=column_map or columns,
                new_system_prompt=new_system_prompt,
                masking_strategy=masking_strategy,
            ),
            filter_fn=filter_fn,
            packed=packed,
            split_across_pack=split_across_pack,
            split=split,
            **load_dataset_kwargs,
        )

    return _named(preset, name, about)


def _named(preset: Any, name: str, about: str) -> Any:
    """The builder under the name that it is called by, so that help() and errors say it."""
    preset.__name__ = preset.__qualname__ = name
    preset.__doc__ = about
    return preset


alpaca_cleaned_dataset: AlpacaPreset = _alpaca(
    "alpaca_cleaned_dataset",
    "yahma/alpaca-cleaned",
    "Alpaca's rows with their mistakes mended; the arguments are those of :func:`~torchpipe.datasets.alpaca_dataset`.",
)
grammar_dataset: ConversationPreset = _conversation(
    "grammar_dataset",
    "liweili/c4_200m",
    InputOutputToMessages,
    None,
    "Sentences with mistakes and without, in the columns ``input`` and ``output``; the arguments are those of "
    ":func:`~torchpipe.datasets.instruct_dataset`. ``prompt_template: torchpipe.data.GrammarErrorCorrectionTemplate`` "
    "of the tokenizer writes the task.",
)
samsum_dataset: ConversationPreset = _conversation(
    "samsum_dataset",
    "Samsung/samsum",
    InputOutputToMessages,
    {"input": "dialogue", "output": "summary"},
    "Chats and their summaries, in the columns ``dialogue`` and ``summary``; the arguments are those of "
    ":func:`~torchpipe.datasets.instruct_dataset`. ``prompt_template: torchpipe.data.SummarizeTemplate`` of the "
    "tokenizer writes the task.",
)
slimorca_dataset: ConversationPreset = _conversation(
    "slimorca_dataset",
    "Open-Orca/SlimOrca-Dedup",
    ShareGPTToMessages,
    None,
    "ShareGPT conversations, in the column ``conversations``; ``column_map`` names another one. The other arguments "
    "are those of :func:`~torchpipe.datasets.chat_dataset`.",
)


def wikitext_dataset(
    tokenizer: Any,
    source: Source = "EleutherAI/wikitext_document_level",
    subset: str = "wikitext-103-v1",
    max_seq_len: int | None = None,
    packed: bool = False,
    filter_fn: FilterFn = None,
    split: str = "train",
    *,
    column: str = "page",
    **load_dataset_kwargs: Any,
) -> TextBuilt:
    """Articles of Wikipedia, one a row, in the column ``page``.

    Args:
        subset: the data set's configuration, for ``load_dataset``.
        max_seq_len: the most tokens of a sample and, packed, the tokens of a row; None: the tokenizer's.

    The other arguments are those of :func:`~torchpipe.datasets.text_completion_dataset`.
    """
    named = _config_of(source, subset)
    return text_completion_dataset(
        tokenizer,
        source,
        column,
        packed=packed,
        filter_fn=filter_fn,
        split=split,
        max_seq_len=max_seq_len,
        **named,
        **load_dataset_kwargs,
    )


def cnn_dailymail_articles_dataset(
    tokenizer: Any,
    source: Source = "ccdv/cnn_dailymail",
    max_seq_len: int | None = None,
    filter_fn: FilterFn = None,
    split: str = "train",
    *,
    column: str = "article",
    name: str = "3.0.0",
    **load_dataset_kwargs: Any,
) -> TextBuilt:
    """Articles of CNN and the Daily Mail, without their highlights, in the column ``article``.

    Args:
        max_seq_len: the most tokens of a sample and, packed, the tokens of a row; None: the tokenizer's.
        name: the data set's version, for ``load_dataset``.

    The other arguments are those of :func:`~torchpipe.datasets.text_completion_dataset`.
    """
    named = _config_of(source, name)
    return text_completion_dataset(
        tokenizer,
        source,
        column,
        filter_fn=filter_fn,
        split=split,
        max_seq_len=max_seq_len,
        **named,
        **load_dataset_kwargs,
    )


def _config_of(source: Source, name: str) -> dict[str, str]:
    """The configuration's name for ``load_dataset``; files and objects in the place of the Hub's data have none."""
    return {"name": name} if isinstance(source, str) and not names_files(source) else {}
