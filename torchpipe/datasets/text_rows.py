"""What data sets of text have in common: rows without messages, and what becomes of long ones."""

from typing import Any

from torchpipe.data.overflow import Overflow, OverflowPolicy, StopToken, TruncationType, overflow_policy
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.datasets.stored import StoredDataset
from torchpipe.errors import ConfigError
from torchpipe.store.source_recipe import SourceRecipe
from torchpipe.store.text_recipe import TextRecipe


class TextRows(RowDataset):
    """Rows of text, turned into samples when they are asked for: those of any
    :class:`~torchpipe.store.text_recipe.TextRecipe`.
    """

    fingerprint = RowDataset.fingerprint  # an inherited one would not speak for what a subclass changes

    @classmethod
    def refuse_other_than_one(cls, recipe: SourceRecipe) -> None:
        """Refuses a recipe that makes no sample of a row, or several: here, row k is sample k.

        Raises:
            ConfigError: it does.
        """
        policy = recipe.text_transform.overflow if isinstance(recipe, TextRecipe) else None
        if policy is not None and not policy.gives_one:
            raise ConfigError(
                f"overflow={policy.overflow!r} gives a row no sample or several, and each row of a data set of text is "
                "one sample. Pack it (packed=True) or store it (cache=True), or set overflow to 'truncate' or 'error'."
            )


TextBuilt = TextRows | StoredDataset | PackedDataset | GrowingPackedDataset
"""What a builder of text gives: by itself, with ``cache``, with ``packed``, with ``start="by_shard"``."""


def text_overflow(
    tokenizer: Any,
    overflow: Overflow | None,
    *,
    max_seq_len: int | None,
    truncation_type: TruncationType | None,
    stop_token: StopToken | None,
    goes_on: bool = False,
) -> OverflowPolicy | None:
    """The policy for long texts; None keeps them whole.

    Args:
        tokenizer: whose max_seq_len and truncation_type hold where none is given.
        overflow: None: "truncate", where there is a length; whole, where a text ``goes_on`` in the next pack.
        max_seq_len, truncation_type, stop_token: see :func:`~torchpipe.data.overflow.overflow_policy`.
        goes_on: whether packs may split a text.

    Raises:
        ConfigError: an option without effect, or a value that is not possible.
    """
    if overflow is None and goes_on:
        return overflow_policy(tokenizer, None, truncation_type=truncation_type, stop_token=stop_token)
    if overflow is None and (max_seq_len is not None or getattr(tokenizer, "max_seq_len", None) is not None):
        overflow = "truncate"
    if overflow == "truncate" and truncation_type is None and getattr(tokenizer, "truncation_type", None) == "turns":
        truncation_type = "right"  # the tokenizer's is for conversations
    return overflow_policy(
        tokenizer, overflow, max_seq_len=max_seq_len, truncation_type=truncation_type, stop_token=stop_token
    )
