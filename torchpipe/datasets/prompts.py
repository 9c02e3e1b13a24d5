"""Data sets of prompts alone, which a model is to answer."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torchpipe.data.prompt_transform import PromptToMessages, PromptTransform
from torchpipe.data.protocols import Transform
from torchpipe.datasets.own_transform import own_or_made
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.datasets.stored_options import StoredOptions
from torchpipe.errors import ConfigError
from torchpipe.sources import Source
from torchpipe.store.unstored_recipe import UnstoredRecipe


class PromptDataset(RowDataset):
    """Rows with a prompt, turned into tokens when they are asked for; :func:`prompt_dataset` builds it.

    Each item holds ``tokens``, a list of integers that ends with what begins the assistant's reply, and, where columns
    are kept, ``columns``, a dict of their values. :func:`~torchpipe.data.padded_collate_prompts` makes batches.
    """

    fingerprint = RowDataset.fingerprint  # its own: what a class inherits does not speak for all it holds


def prompt_dataset(
    tokenizer: Any,
    *,
    source: Source,
    column_map: dict[str, str] | None = None,
    new_system_prompt: str | None = None,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    message_transform: Transform | None = None,
    keep_columns: Sequence[str] = (),
    max_prompt_len: int | None = None,
    overflow: Literal["error", "truncate"] = "error",
    **load_dataset_kwargs: Any,
) -> PromptDataset:
    """Prompts for generation: sampling, evaluation, or training on what is sampled.

    Args:
        tokenizer: the model transform; of text alone.
        source: a name for ``load_dataset``, or an object with ``__len__`` and ``__getitem__``.
        column_map: which column holds the ``prompt``: a text, a turn, or a list of turns or texts; see
            :class:`~torchpipe.data.PromptToMessages`.
        new_system_prompt: replaces the rows' system messages.
        filter_fn: keeps the rows for which it is true; a function or the dotted name of one.
        split: of the source.
        message_transform: a transform of one's own, row to ``{"messages": [...]}``; in place of ``column_map`` and
            ``new_system_prompt``.
        keep_columns: columns whose values each item keeps, such as an id or what an answer is checked by.
        max_prompt_len: the most tokens of a prompt; None: the tokenizer's max_seq_len.
        overflow: of longer prompts: an error that names the row, or "truncate", which leaves out the first tokens.
        load_dataset_kwargs: ``holdout`` and ``drop_duplicates`` are those of :func:`~torchpipe.datasets.sft_dataset`;
            all others are passed to ``load_dataset``.

    Raises:
        ConfigError: an option does not fit; items can't be packed or stored.
    """
    message_transform = own_or_made(
        message_transform, PromptToMessages, column_map=column_map, new_system_prompt=new_system_prompt
    )
    if overflow not in ("error", "truncate"):
        raise ConfigError(f"overflow of a prompt data set is {overflow!r}. It is 'error' or 'truncate'.")
    if max_prompt_len is not None and (type(max_prompt_len) is not int or max_prompt_len < 1):
        raise ConfigError(f"max_prompt_len is {max_prompt_len!r}. Give a whole number of tokens above 0.")
    options, rest = StoredOptions.taken_for_items(load_dataset_kwargs, "prompt data set")
    recipe = UnstoredRecipe(
        what="prompt data set",
        maker=PromptTransform(
            message_transform,
            tokenizer,
            max_prompt_len=getattr(tokenizer, "max_seq_len", None) if max_prompt_len is None else max_prompt_len,
            truncate=overflow == "truncate",
            keep_columns=keep_columns,
        ),
        filter_fn=filter_fn,
        **options.row_fields(source, {"split": split, **rest}),
    )
    return options.built(recipe, tokenizer, unstored=PromptDataset.of_recipe)
