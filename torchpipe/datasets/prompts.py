"""Data sets of prompts alone, which a model is to answer."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from torchpipe.data.prompt_transform import PromptToMessages, PromptTransform
from torchpipe.data.protocols import Transform
from torchpipe.datasets.own_transform import own_or_made
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.datasets.stored import StoredDataset
from torchpipe.datasets.stored_options import StoredOptions
from torchpipe.errors import ConfigError
from torchpipe.sources import Rows, Source
from torchpipe.store import TokenStore
from torchpipe.store.prompt_recipe import PromptRecipe
from torchpipe.store.rows import StoreRecipe, refuse_to_pack
from torchpipe.store.source_recipe import SourceRecipe


class PromptDataset(RowDataset):
    """Rows with a prompt, turned into tokens when they are asked for; :func:`prompt_dataset` builds it.

    Each item holds ``tokens``, a list of integers that ends with what begins the assistant's reply, and, where columns
    are kept, ``columns``, a dict of their values. :func:`~torchpipe.data.padded_collate_prompts` makes batches.
    """

    fingerprint = RowDataset.fingerprint  # its own: what a class inherits does not speak for all it holds


class StoredPromptDataset(StoredDataset):
    """Prompts that were tokenised once, read from a store that all processes of a machine share.

    Arguments, attributes and errors are those of :class:`~torchpipe.datasets.StoredDataset`; an item has the keys of
    :class:`PromptDataset`: ``tokens`` int64 [n], and ``columns``, which are read from the source's row, where the
    recipe keeps any.
    """

    kinds_of_rows: ClassVar[Mapping[type[SourceRecipe], type[RowDataset]]] = {PromptRecipe: PromptDataset}
    _item, _items = "Prompt", "prompts"

    def __init__(
        self,
        recipe: StoreRecipe | TokenStore,
        *,
        cache_dir: str | Path | None = None,
        num_proc: int | None = None,
    ) -> None:
        super().__init__(recipe, cache_dir=cache_dir, num_proc=num_proc)
        # A copy in another process has the rows, where it needs them, and not the recipe.
        self._columns: tuple[Rows, PromptTransform] | None = None
        if isinstance(recipe, PromptRecipe) and recipe.prompt_transform.keep_columns:
            self._columns = recipe.load(), recipe.prompt_transform

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self._number(index)
        item: dict[str, Any] = {"tokens": torch.from_numpy(self._store.sample(number)["tokens"])}
        if self._columns is not None:
            rows, transform = self._columns
            item["columns"] = transform.columns_of(rows[self.row_of(number)[0]])
        return item


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
) -> PromptDataset | StoredPromptDataset:
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
        load_dataset_kwargs: those of :class:`~torchpipe.datasets.stored_options.StoredOptions` but for packing
            (``cache``, ``cache_dir``, ``num_proc``, ``on_error``, ``holdout``, ...;
            :func:`~torchpipe.datasets.sft_dataset` says what each means); all others are passed to ``load_dataset``.

    Raises:
        ConfigError: an option does not fit; ``packed``, for prompts can't be packed.
    """
    message_transform = own_or_made(
        message_transform, PromptToMessages, column_map=column_map, new_system_prompt=new_system_prompt
    )
    if overflow not in ("error", "truncate"):
        raise ConfigError(f"overflow of a prompt data set is {overflow!r}. It is 'error' or 'truncate'.")
    if max_prompt_len is not None and (type(max_prompt_len) is not int or max_prompt_len < 1):
        raise ConfigError(f"max_prompt_len is {max_prompt_len!r}. Give a whole number of tokens above 0.")
    options, rest = StoredOptions.taken_from(load_dataset_kwargs)
    if options.packed:
        refuse_to_pack(PromptRecipe.kind)
    recipe = PromptRecipe(
        prompt_transform=PromptTransform(
            message_transform,
            tokenizer,
            max_prompt_len=getattr(tokenizer, "max_seq_len", None) if max_prompt_len is None else max_prompt_len,
            truncate=overflow == "truncate",
            keep_columns=keep_columns,
        ),
        filter_fn=filter_fn,
        **options.row_fields(source, {"split": split, **rest}),
    )
    return options.built(recipe, tokenizer, unstored=PromptDataset.of_recipe, stored=StoredPromptDataset)
