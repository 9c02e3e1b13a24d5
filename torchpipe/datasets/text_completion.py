"""Documents of plain text, each token of which is trained."""

from collections.abc import Callable, Mapping
from typing import Any

from torchpipe.data.overflow import Overflow, StopToken, TruncationType
from torchpipe.data.plain_text import TextCompletionTransform
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.datasets.stored_options import StoredOptions
from torchpipe.datasets.text_rows import TextBuilt, TextRows, text_overflow
from torchpipe.sources import Source
from torchpipe.store.text_recipe import TextRecipe


class TextCompletionDataset(TextRows):
    """Documents of plain text, turned into samples when they are asked for. Construction tokenises nothing.

    Args:
        tokenizer: its ``encode`` takes ``add_bos`` and ``add_eos``.
        source: a name for ``load_dataset``, or any object with ``__len__`` and ``__getitem__``, or a
            ``Configurable.Config`` that builds one.
        column: where the text is.
        add_eos: whether EOS stands behind each document.
        filter_fn: keeps the rows for which it is true; a function or the dotted name of one.
        add_bos: whether BOS stands before each document, where the tokenizer has one.
        filter_kwargs: further arguments of the ``filter`` of Hugging Face data sets (``num_proc``, ...).
        overflow: what becomes of documents longer than ``max_seq_len``: "error" or "truncate"; and, in samples that are
            read with :meth:`fitted`, "drop" or "split". None truncates.
        max_seq_len: the most tokens of a sample; None: the tokenizer's.
        truncation_type: where "truncate" cuts: "right" or "left"; None: the tokenizer's.
        stop_token: "cut": EOS goes with the rest of a document that is cut on the right; "keep": it takes the last
            place.
        one_sample_a_row: False allows "drop" and "split".
        load_dataset_kwargs: passed to ``load_dataset``: ``split``, ``data_files``, ``data_dir``, ``name``, ...

    Each sample holds ``tokens``, ``mask`` (True = not trained) and ``labels``, lists of equal length.

    Raises:
        SourceError: nothing is there, or no row is left.
        ConfigError: an option does not fit the source, or ``overflow`` does not fit one sample a row.

    >>> from torchpipe.models.tiny import tiny_tokenizer
    >>> dataset = TextCompletionDataset(tiny_tokenizer(), [{"text": "Hello"}])
    >>> dataset[0]["labels"] == [*dataset[0]["tokens"][1:], -100]
    True
    """

    def __init__(
        self,
        tokenizer: Any,
        source: Source,
        column: str = "text",
        add_eos: bool = True,
        filter_fn: Callable[..., bool] | str | None = None,
        *,
        add_bos: bool = True,
        filter_kwargs: Mapping[str, Any] | None = None,
        overflow: Overflow | None = None,
        max_seq_len: int | None = None,
        truncation_type: TruncationType | None = None,
        stop_token: StopToken | None = None,
        one_sample_a_row: bool = True,
        **load_dataset_kwargs: Any,
    ) -> None:
        policy = text_overflow(
            tokenizer, overflow, max_seq_len=max_seq_len, truncation_type=truncation_type, stop_token=stop_token
        )
        recipe = TextRecipe(
            source=source,
            load_dataset_kwargs=load_dataset_kwargs,
            filter_fn=filter_fn,
            filter_kwargs=filter_kwargs,
            text_transform=TextCompletionTransform(
                tokenizer, column=column, add_bos=add_bos, add_eos=add_eos, overflow=policy
            ),
        )
        self._open(recipe, filters=True, one_sample_a_row=one_sample_a_row)

    fingerprint = RowDataset.fingerprint  # an inherited one would not speak for what a subclass changes


def text_completion_dataset(
    tokenizer: Any,
    source: Source,
    column: str = "text",
    add_eos: bool = True,
    packed: bool = False,
    split_across_pack: bool = True,
    split: str = "train",
    filter_fn: Callable[..., bool] | str | None = None,
    *,
    add_bos: bool = True,
    overflow: Overflow | None = None,
    max_seq_len: int | None = None,
    truncation_type: TruncationType | None = None,
    stop_token: StopToken | None = None,
    **load_dataset_kwargs: Any,
) -> TextBuilt:
    """Documents of plain text, each token of which is trained.

    Args:
        tokenizer: its ``encode`` takes ``add_bos`` and ``add_eos``.
        source: a name for ``load_dataset`` ("text", "json", ...), or an object with ``__len__`` and ``__getitem__``.
        column: where the text is.
        add_eos: whether EOS stands behind each document.
        packed: True packs documents into rows of max_seq_len tokens.
        split_across_pack: packed only: whether a document may go on in the next row, so that every row is full.
        split: of the source.
        filter_fn: keeps the rows for which it is true; a function or the dotted name of one.
        add_bos: whether BOS stands before each document, where the tokenizer has one.
        overflow: what becomes of documents longer than max_seq_len: "error", "truncate"; packed or with ``cache`` also
            "drop" and "split", which makes several samples of one and keeps each of its tokens. None truncates; packed
            with ``split_across_pack`` it keeps documents whole.
        max_seq_len: the most tokens of a sample and, packed, the tokens of a row; None: the tokenizer's.
        truncation_type: where "truncate" cuts: "right" or "left"; None: the tokenizer's.
        stop_token: "cut": EOS goes with the rest of a document that is cut on the right, which did not end there;
            "keep": it takes the last place.
        load_dataset_kwargs: the other arguments of :func:`~torchpipe.datasets.sft_dataset` from ``strategy`` on, and
            those of ``load_dataset``.

    Raises:
        ConfigError: ``packed`` without a max_seq_len, or an option that does not fit.

    >>> from torchpipe.models.tiny import tiny_tokenizer
    >>> text_completion_dataset(tiny_tokenizer(), [{"text": "Hello"}], add_eos=False).transform.add_eos
    False
    """
    policy = text_overflow(
        tokenizer,
        overflow,
        max_seq_len=max_seq_len,
        truncation_type=truncation_type,
        stop_token=stop_token,
        goes_on=packed and split_across_pack,
    )
    options, rest = StoredOptions.taken_from(
        load_dataset_kwargs, packed=packed, split_across_pack=packed and split_across_pack, max_seq_len=max_seq_len
    )
    recipe = TextRecipe(
        text_transform=TextCompletionTransform(
            tokenizer, column=column, add_bos=add_bos, add_eos=add_eos, overflow=policy
        ),
        filter_fn=filter_fn,
        **options.row_fields(source, {"split": split, **rest}),
    )
    return options.built(recipe, tokenizer, unstored=TextCompletionDataset.of_recipe)
