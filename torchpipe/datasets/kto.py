"""Data sets of single answers, each with a label that says whether it is a good one."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch

from torchpipe.data.labelled_transforms import LabelledToMessages
from torchpipe.data.overflow import Overflow, StopToken, TruncationType, overflow_policy
from torchpipe.data.protocols import Transform
from torchpipe.data.sequences import unshifted
from torchpipe.datasets.own_transform import own_or_made
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.datasets.stored import StoredDataset
from torchpipe.datasets.stored_options import StoredOptions
from torchpipe.errors import ConfigError
from torchpipe.sources import Source
from torchpipe.store.kto_recipe import KTORecipe
from torchpipe.store.rows import refuse_to_pack
from torchpipe.store.source_recipe import SourceRecipe


class KTODataset(RowDataset):
    """Rows with one answer and a label, turned into items when they are asked for; :func:`kto_dataset` builds it.

    Each item holds ``input_ids`` and ``labels``, lists of as many integers, and ``desirable``, True or False. Labels
    are *unshifted*: each token of the answer that is trained, at its own place; the prompt is never trained.
    :func:`~torchpipe.data.padded_collate_kto` makes batches.
    """

    fingerprint = RowDataset.fingerprint  # its own: what a class inherits does not speak for all it holds

    @classmethod
    def refuse_other_than_one(cls, recipe: SourceRecipe) -> None:
        """Refuses a recipe that gives a row no item: here, row k is item k.

        Raises:
            ConfigError: it may; the sentence says which option.
        """
        assert isinstance(recipe, KTORecipe)
        if recipe.overflow is not None and not recipe.overflow.gives_one:
            raise ConfigError(
                f"overflow={recipe.overflow.overflow!r} gives a row no item, and each row of a KTODataset is one. "
                "Store it (cache=True), or set overflow to 'truncate' or 'error'."
            )
        super().refuse_other_than_one(recipe)


class StoredKTODataset(StoredDataset):
    """Labelled answers that were tokenised once, read from a store that all processes of a machine share.

    Arguments, attributes and errors are those of :class:`~torchpipe.datasets.StoredDataset`; an item has the keys of
    :class:`KTODataset`: ``input_ids`` and ``labels`` int64 [n], and ``desirable``, True or False.
    """

    kinds_of_rows: ClassVar[Mapping[type[SourceRecipe], type[RowDataset]]] = {KTORecipe: KTODataset}
    _item, _items = "Answer", "answers"

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self._number(index)
        sample = self._store.sample(number)
        return {
            "input_ids": torch.from_numpy(sample["tokens"]),
            "labels": torch.from_numpy(unshifted(sample["labels"])),
            "desirable": bool(self._desirable[number]),
        }

    @cached_property
    def _desirable(self) -> np.ndarray:
        return self._store.desirable

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_desirable"}


def kto_dataset(
    tokenizer: Any,
    *,
    source: Source,
    column_map: dict[str, str] | None = None,
    new_system_prompt: str | None = None,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    message_transform: Transform | None = None,
    overflow: Overflow | None = None,
    max_seq_len: int | None = None,
    truncation_type: TruncationType | None = None,
    stop_token: StopToken | None = None,
    **load_dataset_kwargs: Any,
) -> KTODataset | StoredKTODataset:
    """Answers with a label, for losses that need no pairs, such as KTO (https://arxiv.org/abs/2402.01306).

    Args:
        tokenizer: the model transform; of text alone.
        source: a name for ``load_dataset``, or an object with ``__len__`` and ``__getitem__``.
        column_map: which columns hold ``messages`` and ``label``, or ``prompt``, ``completion`` and ``label``; see
            :class:`~torchpipe.data.LabelledToMessages`.
        new_system_prompt: replaces the rows' system messages.
        filter_fn: keeps the rows for which it is true; a function or the dotted name of one.
        split: of the source.
        message_transform: a transform of one's own, row to ``{"messages": [...], "desirable": bool}``; in place of
            ``column_map`` and ``new_system_prompt``.
        overflow: what becomes of rows longer than max_seq_len: "error", "truncate"; stored, also "drop". None leaves
            it to the tokenizer.
        max_seq_len, truncation_type, stop_token: as for :func:`~torchpipe.datasets.sft_dataset`.
        load_dataset_kwargs: those of :class:`~torchpipe.datasets.stored_options.StoredOptions` but for packing
            (``cache``, ``cache_dir``, ``num_proc``, ``on_error``, ``holdout``, ...;
            :func:`~torchpipe.datasets.sft_dataset` says what each means); all others are passed to ``load_dataset``.

    Raises:
        ConfigError: an option does not fit; ``packed``, for answers can't be packed.
    """
    message_transform = own_or_made(
        message_transform, LabelledToMessages, column_map=column_map, new_system_prompt=new_system_prompt
    )
    policy = overflow_policy(
        tokenizer, overflow, max_seq_len=max_seq_len, truncation_type=truncation_type, stop_token=stop_token
    )
    options, rest = StoredOptions.taken_from(load_dataset_kwargs)
    if options.packed:
        refuse_to_pack(KTORecipe.kind)
    recipe = KTORecipe(
        message_transform=message_transform,
        model_transform=tokenizer,
        overflow=policy,
        filter_fn=filter_fn,
        **options.row_fields(source, {"split": split, **rest}),
    )
    return options.built(recipe, tokenizer, unstored=KTODataset.of_recipe, stored=StoredKTODataset)
