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

    @classmethod
    def refuse_other_than_one(cls, recipe: SourceRecipe) -> None:
        """Refuses a recipe that makes no sample of a row, or several: here, row k is sample k.

        Raises:
            ConfigError: it does; the sentence says which option.
        """
<<<<<<< HEAD
        dataset = cls.__new__(cls)
        dataset._open(recipe, filters=not as_stored, one_sample_a_row=not as_stored)
        return dataset

    def _open(self, recipe: SFTRecipe, *, filters: bool, one_sample_a_row: bool) -> None:
        if one_sample_a_row:
            _refuse_other_than_one(recipe)
        self.recipe = recipe
        self.transform = recipe.transform()
        self.name = recipe.name
        rows = self.rows = load_rows(recipe.source, **recipe.load_dataset_kwargs)
        if filters and recipe.filter_fn is not None:
            self.rows = RowFilter(recipe.filter_fn, recipe.filter_kwargs or {}).kept(rows, self.name)
            self.name += ", counted after filter_fn"
        self.num_filtered = len(rows) - len(self.rows)
        self._all = self.rows
        self._numbers: np.ndarray | None = None  # of the used rows among all
        self.num_left_out: dict[str, int] = {}
        self._examples: dict[str, list[int]] = {}
        if filters and (recipe.holdout is not None or recipe.duplicates is not None):
            self._select(recipe)
        self._has_warned = False

    def _select(self, recipe: SFTRecipe) -> None:
        """Leaves out what a split or duplicates do."""
        selection = RowSelection(self.rows, self.name, holdout=recipe.holdout, duplicates=recipe.duplicates)
        kept: list[int] = []
        for row in track(range(len(self.rows)), f"Choosing rows of {self.name}"):
            if (why := selection.why_out(row)) is None:
                kept.append(row)
                continue
            self.num_left_out[why] = self.num_left_out.get(why, 0) + 1
            if self.num_left_out[why] <= NUM_EXAMPLES:
                self._examples.setdefault(why, []).append(row)
        if not kept:
            raise SourceError(
                f"No row of {self.name} is left of {len(self.rows)}: {self.num_left_out}. Check holdout and "
                "drop_duplicates."
            )
        self._numbers = np.array(kept, dtype=np.int64)
        self.rows = KeptRows(self._all, self._numbers)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = self._made(index, self.transform)
        if self.recipe.row_policy.on_untrained != "keep" and "labels" in sample and not is_trained(sample):
            self._untrained(self._source_row(row_number(index)))
        return sample

    def _untrained(self, row: int) -> None:
        """Raises, or says once, that a row trains nothing. It is a sample all the same, since row k is sample k."""
        where = f"Row {row} of {self.name}"
        if self.recipe.row_policy.on_untrained == "raise":
            raise located(untrained_error(), where)
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{where} has no token that is trained, and so has its sample. packed=True or cache=True leaves such "
                "rows out and counts them; a filter_fn drops them; on_untrained='raise' refuses them.",
                stacklevel=3,
            )

    @cached_property
    def ledger(self) -> LedgerSummary:
        """What became of the source's rows. All of them are read when it is first asked for, so that a bad one raises
        its error here.
        """
        for row in track(range(len(self)), f"Checking rows of {self.name}"):
            self[row]
        left_out = left_out_before(self)
        examples = {reason: tuple(rows) for reason, rows in self._examples.items()}
        read = len(self) + sum(left_out.values())
        return LedgerSummary(read=read, used=len(self), left_out=left_out, examples=examples)

    def fitted(self, index: int) -> Fitted:
        """The samples that a row gives: none, one, or several, as ``overflow`` says."""
        return self._made(index, self.transform.fitted)

    def fingerprint(self) -> str:
        """What tells these samples from others: the rows that are left, and what is made of them.

        Raises:
            NoFingerprint: the source, or a transform, can't be told from others.
        """
        return fingerprint(sorted(self.recipe.key_fields().items()))

    def _made(self, index: int, make: Callable[[Any], Made]) -> Made:
        index = row_number(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"Row {index} was asked for, and {self.name} has {len(self)} rows.")
        return made_of_row(self._all, self._source_row(index), self.name, make)

    def _source_row(self, index: int) -> int:
        """The number of a row among those that a split or duplicates leave out, too."""
        index %= len(self)
        return index if self._numbers is None else int(self._numbers[index])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))


def left_out_before(dataset: Any) -> dict[str, int]:
    """Rows that a filter, a split or duplicates left out before they were rows of a map-style data set, by reason."""
    filtered = getattr(dataset, "num_filtered", 0)
    return {**({"filtered": filtered} if filtered else {}), **getattr(dataset, "num_left_out", {})}


def _refuse_other_than_one(recipe: SFTRecipe) -> None:
    """Refuses a recipe that makes none or several samples of a row: here, row k is sample k."""
    if recipe.overflow is not None and not recipe.overflow.gives_one:
        raise ConfigError(
            f"overflow={recipe.overflow.overflow!r} gives a row no sample or several, and each row of an SFTDataset is "
            "one sample. Pack it (packed=True) or store it (cache=True), or set overflow to 'truncate' or 'error'."
        )
    if not getattr(recipe.model_transform, "one_sample_a_row", True):
        on_unproved = getattr(recipe.model_transform, "on_unproved", None)
        raise ConfigError(
            f"The tokenizer has on_unproved={on_unproved!r}, which makes none or several samples of a row, and this "
            "data set has one for each. Use 'refuse' or 'common_prefix', pack (packed=True) or store it (cache=True)."
        )
=======
        assert isinstance(recipe, SFTRecipe)
        if recipe.overflow is not None and not recipe.overflow.gives_one:
            raise ConfigError(
                f"overflow={recipe.overflow.overflow!r} gives a row no sample or several, and each row of an "
                "SFTDataset is one sample. Pack it (packed=True) or store it (cache=True), or set overflow to "
                "'truncate' or 'error'."
            )
        super().refuse_other_than_one(recipe)
