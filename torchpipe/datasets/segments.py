"""Text pieces with their own train flags, without a template."""

from collections.abc import Callable, Sequence
from typing import Any

from torchpipe.data.overflow import Overflow, StopToken, TruncationType
from torchpipe.data.segments import Encoding, SegmentsTransform
from torchpipe.datasets.stored_options import StoredOptions
from torchpipe.datasets.text_rows import TextBuilt, TextRows, text_overflow
from torchpipe.sources import Source
from torchpipe.store.text_recipe import TextRecipe


def segments_dataset(
    tokenizer: Any,
    *,
    source: Source,
    column: str = "segments",
    encoding: Encoding = "apart",
    add_bos: bool = False,
    add_eos: bool = False,
    control_tokens: Sequence[str] = (),
    packed: bool = False,
    filter_fn: Callable[..., bool] | str | None = None,
    split: str = "train",
    split_across_pack: bool = False,
    overflow: Overflow | None = None,
    max_seq_len: int | None = None,
    truncation_type: TruncationType | None = None,
    stop_token: StopToken | None = None,
    **load_dataset_kwargs: Any,
) -> TextBuilt:
    """Rows of ``{"segments": [{"label": true or false, "text": ...}, ...]}``: the texts as they are, one behind the
    other, of which those with a true label are trained.

    Args:
        column: where the list is.
        encoding: "apart": each text's tokens are its own, so that a label is exact to the byte. "together": the joined
            text's tokens, as a model reads it; a token that is of a trained and an untrained text is not trained.
        add_bos, add_eos: whether BOS stands first, and EOS, trained as the last text is, last.
        control_tokens: texts of control tokens, as "<|im_end|>", that become those tokens where the pieces spell them.
            Of any other the spelling stays text.
        overflow, max_seq_len, truncation_type, stop_token: see :func:`~torchpipe.datasets.text_completion_dataset`.
        load_dataset_kwargs: the other arguments of :func:`~torchpipe.datasets.sft_dataset` from ``strategy`` on, and
            those of ``load_dataset``.

    Raises:
        ConfigError: an option does not fit.

    >>> from torchpipe.models.tiny import tiny_tokenizer
    >>> tokenizer = tiny_tokenizer()
    >>> row = {"segments": [{"label": False, "text": "1 + 1 = "}, {"label": True, "text": "2"}]}
    >>> sample = segments_dataset(tokenizer, source=[row])[0]
    >>> tokenizer.decode([label for label in sample["labels"] if label != -100])
    '2'
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
        load_dataset_kwargs, packed=packed, split_across_pack=split_across_pack, max_seq_len=max_seq_len
    )
    recipe = TextRecipe(
        text_transform=SegmentsTransform(
            tokenizer,
            column=column,
            encoding=encoding,
            add_bos=add_bos,
            add_eos=add_eos,
            control_tokens=control_tokens,
            overflow=policy,
        ),
        filter_fn=filter_fn,
        **options.row_fields(source, {"split": split, **rest}),
    )
    return options.built(recipe, tokenizer, unstored=TextRows.of_recipe)
