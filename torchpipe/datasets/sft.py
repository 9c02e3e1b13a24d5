"""The map-style data set of supervised fine-tuning."""

from collections.abc import Callable, Mapping
from typing import Any

from torchpipe.data.overflow import Overflow, StopToken, TruncationType, overflow_policy
from torchpipe.data.protocols import Transform
from torchpipe.data.row_policy import OnUntrained, RowPolicy
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.errors import ConfigError
from torchpipe.sources import Source
from torchpipe.store import SFTRecipe
from torchpipe.store.source_recipe import SourceRecipe


class SFTDataset(RowDataset):
    """Rows of a source, turned into samples when they are asked for. Construction tokenises nothing.

    Args:
        source: a name for ``load_dataset``, or any object with ``__len__`` and ``__getitem__``, or a
            ``Configurable.Config`` that builds one.
        message_transform: row to ``{"messages": [...]}``.
        model_transform: the tokenizer or multimodal transform.
        filter_fn: keeps the rows for which it is true; runs once, before any transform. A function, or the dotted name
            of one (the form for YAML).
        filter_kwargs: further arguments of the ``filter`` of Hugging Face data sets (``num_proc``, ...).
        overflow: what becomes of rows longer than ``max_seq_len``: "error", "truncate", "drop" or "split" (see
            :data:`~torchpipe.data.overflow.Overflow`). Rows are then tokenized as a whole, and it is applied once.
            None leaves it to the tokenizer, whose max_seq_len means "truncate".
        max_seq_len: the most tokens of a sample; None: the tokenizer's.
        truncation_type: where "truncate" cuts: "right", "left" or "turns"; None: the tokenizer's.
        stop_token: whether a turn that "truncate" cuts on the right keeps its stop token: "cut" or "keep".
        one_sample_a_row: False allows "drop" and "split": samples are then read with :meth:`fitted`, as
            :class:`~torchpipe.datasets.PackedDataset` does.
        on_untrained: what becomes of a row without a trained token: "leave_out" does it where the data set is packed
            (here, it stays and the first one warns), "keep", "raise".
        load_dataset_kwargs: passed to ``load_dataset``: ``split``, ``data_files``, ``data_dir``, ``name``, ...

    Each sample holds ``tokens``, ``mask`` and ``labels`` (see :class:`~torchpipe.data.sample_transforms.SFTTransform`).
    An error in a row names the row and its file.

    Attributes:
        name: what errors call the source.
        num_filtered: rows that ``filter_fn`` left out.
        num_left_out: rows that a split or duplicates left out, by reason.
        rows: those that are left; transform: what makes a sample of one.
        recipe: all of this, as a store is built from it.

    Raises:
        SourceError: nothing is there, or no row is left.
        ConfigError: an option does not fit the source, or ``overflow`` does not fit one sample a row.
    """

    def __init__(
        self,
        *,
        source: Source,
        message_transform: Transform,
        model_transform: Transform,
        filter_fn: Callable[..., bool] | str | None = None,
        filter_kwargs: Mapping[str, Any] | None = None,
        overflow: Overflow | None = None,
        max_seq_len: int | None = None,
        truncation_type: TruncationType | None = None,
        stop_token: StopToken | None = None,
        one_sample_a_row: bool = True,
        on_untrained: OnUntrained = "leave_out",
        **load_dataset_kwargs: Any,
    ) -> None:
        policy = overflow_policy(
            model_transform, overflow, max_seq_len=max_seq_len, truncation_type=truncation_type, stop_token=stop_token
        )
        recipe = SFTRecipe(
            source=source,
            load_dataset_kwargs=load_dataset_kwargs,
            message_transform=message_transform,
            model_transform=model_transform,
            filter_fn=filter_fn,
            filter_kwargs=filter_kwargs,
            overflow=policy,
            row_policy=RowPolicy(on_untrained=on_untrained),
        )
        self._open(recipe, filters=True, one_sample_a_row=one_sample_a_row)

    fingerprint = RowDataset.fingerprint  # its own: what a class inherits does not speak for all it holds

    @classmethod
    def refuse_other_than_one(cls, recipe: SourceRecipe) -> None:
        """Refuses a recipe that makes no sample of a row, or several: here, row k is sample k.

        Raises:
            ConfigError: it does; the sentence says which option.
        """
        assert isinstance(recipe, SFTRecipe)
        if recipe.overflow is not None and not recipe.overflow.gives_one:
            raise ConfigError(
                f"overflow={recipe.overflow.overflow!r} gives a row no sample or several, and each row of an "
                "SFTDataset is one sample. Pack it (packed=True) or store it (cache=True), or set overflow to "
                "'truncate' or 'error'."
            )
        super().refuse_other_than_one(recipe)
