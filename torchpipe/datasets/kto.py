"""Data sets of single answers, each with a label that says whether it is a good one."""

from collections.abc import Callable
from typing import Any

from torchpipe.data.kto_transform import KTOTransform
from torchpipe.data.labelled_transforms import LabelledToMessages
from torchpipe.data.overflow import Overflow, StopToken, TruncationType, overflow_policy
from torchpipe.data.protocols import Transform
from torchpipe.datasets.own_transform import own_or_made
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.datasets.stored_options import StoredOptions
from torchpipe.errors import ConfigError
from torchpipe.sources import Source
from torchpipe.store.unstored_recipe import UnstoredRecipe


class KTODataset(RowDataset):
    """Rows with one answer and a label, turned into items when they are asked for; :func:`kto_dataset` builds it.

    Each item holds ``input_ids`` and ``labels``, lists of as many integers, and ``desirable``, True or False. Labels
    are *unshifted*: each token of the answer that is trained, at its own place; the prompt is never trained.
    :func:`~torchpipe.data.padded_collate_kto` makes batches.
    """

    fingerprint = RowDataset.fingerprint  # its own: what a class inherits does not speak for all it holds


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
) -> KTODataset:
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
        overflow: what becomes of rows longer than max_seq_len: "error" or "truncate"; None leaves it to the tokenizer.
        max_seq_len, truncation_type, stop_token: as for :func:`~torchpipe.datasets.sft_dataset`.
        load_dataset_kwargs: ``holdout``, ``drop_duplicates`` and ``on_untrained`` are those of ``sft_dataset``; all
            others are passed to ``load_dataset``.

    Raises:
        ConfigError: an option does not fit; items can't be packed or stored.
    """
    message_transform = own_or_made(
        message_transform, LabelledToMessages, column_map=column_map, new_system_prompt=new_system_prompt
    )
    policy = overflow_policy(
        tokenizer, overflow, max_seq_len=max_seq_len, truncation_type=truncation_type, stop_token=stop_token
    )
    if policy is not None and not policy.gives_one:
        raise ConfigError(f"overflow={overflow!r} gives a row no item or several. Set it to 'error' or 'truncate'.")
    options, rest = StoredOptions.taken_for_items(load_dataset_kwargs, "KTO data set")
    recipe = UnstoredRecipe(
        what="KTO data set",
        maker=KTOTransform(message_transform, tokenizer, overflow=policy),
        filter_fn=filter_fn,
        **options.row_fields(source, {"split": split, **rest}),
    )
    return options.built(recipe, tokenizer, unstored=KTODataset.of_recipe)
