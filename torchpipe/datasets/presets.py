"""Builders of single data sets of the Hugging Face Hub: a source and its columns over the general builders."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torchpipe.data.message_transforms import ShareGPTToMessages
from torchpipe.datasets.builders import Built, Strategy, alpaca_dataset, instruct_dataset, sft_dataset
from torchpipe.sources import Source

alpaca_cleaned_dataset = partial(alpaca_dataset, source="yahma/alpaca-cleaned")
"""Alpaca's rows with their mistakes mended; see :func:`~torchpipe.datasets.alpaca_dataset`."""

grammar_dataset = partial(instruct_dataset, source="liweili/c4_200m")
"""Sentences with mistakes and without, in the columns ``input`` and ``output``; see
:func:`~torchpipe.datasets.instruct_dataset`. ``prompt_template: torchpipe.data.GrammarErrorCorrectionTemplate`` of the
tokenizer writes the task."""


def samsum_dataset(
    tokenizer: Any,
    *,
    source: Source = "Samsung/samsum",
    column_map: dict[str, str] | None = None,
    train_on_input: bool | None = None,
    new_system_prompt: str | None = None,
    packed: bool = False,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    masking_strategy: Strategy = None,
    split_across_pack: bool = False,
    **load_dataset_kwargs: Any,
) -> Built:
    """Chats and their summaries, in the columns ``dialogue`` and ``summary``.

    ``prompt_template: torchpipe.data.SummarizeTemplate`` of the tokenizer writes the task.

    Args:
        column_map: other names for those columns, as ``{"input": "dialogue", "output": "summary"}``.

    The other arguments are those of :func:`~torchpipe.datasets.instruct_dataset`.
    """
    return instruct_dataset(
        tokenizer,
        source=source,
        column_map=column_map or {"input": "dialogue", "output": "summary"},
        train_on_input=train_on_input,
        new_system_prompt=new_system_prompt,
        packed=packed,
        filter_fn=filter_fn,
        split=split,
        masking_strategy=masking_strategy,
        split_across_pack=split_across_pack,
        **load_dataset_kwargs,
    )


def slimorca_dataset(
    tokenizer: Any,
    *,
    source: Source = "Open-Orca/SlimOrca-Dedup",
    column_map: dict[str, str] | None = None,
    train_on_input: bool | None = None,
    new_system_prompt: str | None = None,
    packed: bool = False,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    masking_strategy: Strategy = None,
    split_across_pack: bool = False,
    **load_dataset_kwargs: Any,
) -> Built:
    """ShareGPT conversations, in the column ``conversations``.

    Args:
        column_map: another name for that column, as ``{"conversations": "turns"}``.

    The other arguments are those of :func:`~torchpipe.datasets.chat_dataset`.
    """
    return sft_dataset(
        tokenizer,
        source=source,
        message_transform=ShareGPTToMessages(
            train_on_input=train_on_input,
            column_map=column_map,
            new_system_prompt=new_system_prompt,
            masking_strategy=masking_strategy,
        ),
        filter_fn=filter_fn,
        packed=packed,
        split_across_pack=split_across_pack,
        split=split,
        **load_dataset_kwargs,
    )
