"""Conversations whose layout is found out, row by row."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe._progress import say
from torchpipe.data.detected import DetectedToMessages
from torchpipe.data.overflow import Overflow, StopToken, TruncationType, overflow_policy
from torchpipe.datasets.builders import Built, Strategy
from torchpipe.datasets.sft import SFTDataset
from torchpipe.datasets.stored_options import StoredOptions
from torchpipe.errors import DataError
from torchpipe.sources import Rows, Source
from torchpipe.store import SFTRecipe

NUM_LOOKED_AT = 1000
"""Rows that are looked at before the first one is tokenised: all of a source of so few, else evenly spread."""


def messages_dataset(
    tokenizer: Any,
    *,
    source: Source,
    column_map: Mapping[str, str] | None = None,
    new_system_prompt: str | None = None,
    packed: bool = False,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    masking_strategy: Strategy = None,
    split_across_pack: bool = False,
    shapes: Sequence[str] | None = None,
    image_dir: str | Path | None = None,
    allow_remote: bool = True,
    split_reasoning: bool = False,
    overflow: Overflow | None = None,
    max_seq_len: int | None = None,
    truncation_type: TruncationType | None = None,
    stop_token: StopToken | None = None,
    **load_dataset_kwargs: Any,
) -> Built:
    """Conversations whose layout is found out for each row, so that one file, or several, may hold several layouts.

    Known are OpenAI's and ShareGPT's turns, a prompt with its completion (texts or turns), questions and answers under
    the names that data sets give them, and Alpaca's columns: :data:`torchpipe.data.schema.SHAPES` has them all. What
    was found is said before the first row is tokenised. A row of no known shape, or of several, is an error that names
    its columns; ``on_error`` leaves such rows out and counts them.

    Args:
        column_map: our column -> the row's, as ``{"input": "toy_input", "output": "toy_output"}``; ``{"tools": None}``
            leaves a row's tools out, and ``{"system": None}`` its system column.
        new_system_prompt: replaces the rows' system messages.
        masking_strategy: None trains on the assistant's messages, in every layout; see
            :class:`~torchpipe.data.detected.DetectedToMessages`.
        shapes: names of the only shapes to consider, where rows fit several; None: all.
        image_dir, allow_remote, split_reasoning: see :class:`~torchpipe.data.OpenAIToMessages`.
        load_dataset_kwargs: the other arguments of :func:`~torchpipe.datasets.sft_dataset` from ``strategy`` on, and
            those of ``load_dataset``.

    The other arguments are those of :func:`~torchpipe.datasets.sft_dataset`.

    Raises:
        ConfigError: an option does not fit.

    >>> from torchpipe.models.tiny import tiny_tokenizer
    >>> rows = [{"question": "1 + 1?", "answer": "2"}, {"instruction": "Greet.", "output": "Hello"}]
    >>> len(messages_dataset(tiny_tokenizer(), source=rows))
    2
    """
    options, rest = StoredOptions.taken_from(
        load_dataset_kwargs, packed=packed, split_across_pack=split_across_pack, max_seq_len=max_seq_len
    )
    options.capacity(tokenizer)
    transform = DetectedToMessages(
        column_map=column_map,
        new_system_prompt=new_system_prompt,
        masking_strategy=masking_strategy,
        image_dir=image_dir,
        allow_remote=allow_remote,
        split_reasoning=split_reasoning,
        shapes=shapes,
    )
    policy = overflow_policy(
        tokenizer, overflow, max_seq_len=max_seq_len, truncation_type=truncation_type, stop_token=stop_token
    )
    recipe = SFTRecipe(
        message_transform=transform,
        model_transform=tokenizer,
        filter_fn=filter_fn,
        overflow=policy,
        **options.row_fields(source, {"split": split, **rest}),
    )
    if options.streaming:
        return options.built(recipe, tokenizer, unstored=SFTDataset.of_recipe)
    with recipe.opened() as rows:
        say(f"{recipe.name}: {describe_shapes(rows, transform)}")
        return options.built(recipe, tokenizer, unstored=SFTDataset.of_recipe)


def shapes_in(rows: Rows, transform: DetectedToMessages, *, at_most: int = NUM_LOOKED_AT) -> dict[str, int]:
    """How many rows have which shape, the most frequent first; "no known shape" are those that are refused.

    Args:
        rows: of a source.
        transform: what finds their shapes.
        at_most: how many rows to look at, evenly spread.

    >>> shapes_in([{"question": "?", "answer": "!"}, {"a": 1}], DetectedToMessages())
    {'question and answer': 1, 'no known shape': 1}
    """
    found: Counter[str] = Counter()
    for row in np.linspace(0, len(rows) - 1, min(len(rows), at_most), dtype=np.int64).tolist():
        try:
            found[transform.shape_of(rows[row]).name] += 1
        except DataError:
            found["no known shape"] += 1
    return dict(found.most_common())


def describe_shapes(rows: Rows, transform: DetectedToMessages) -> str:
    """One line: the shapes of the rows.

    >>> describe_shapes([{"question": "?", "answer": "!"}], DetectedToMessages())
    '1 row: 1 question and answer'
    """
    found = shapes_in(rows, transform)
    looked_at = sum(found.values())
    all_of_them = f"{len(rows):,} row{'' if len(rows) == 1 else 's'}"
    which = all_of_them if looked_at == len(rows) else f"of {all_of_them}, {looked_at:,} were looked at"
    return f"{which}: " + ", ".join(f"{count:,} {shape}" for shape, count in found.items())
