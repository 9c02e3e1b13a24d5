"""What every builder of a data set takes beside its rows: packing, the store, and what becomes of bad rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.packing import Strategy as PackingStrategy
from torchpipe.data.row_policy import OnError, OnUntrained, RowPolicy
from torchpipe.data.splits import Holdout
from torchpipe.datasets.first_packs import asked_for
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.stored import StoredDataset
from torchpipe.datasets.streamed import STREAMING, StreamedDataset
from torchpipe.errors import ConfigError
from torchpipe.sources import Source
from torchpipe.store.build_site import SHARD_ROWS
from torchpipe.store.row_selection import Duplicates
from torchpipe.store.rows import StoreRecipe
from torchpipe.store.source_recipe import SourceRecipe

Start = Literal["when_complete", "by_shard"]
"""When packs can be trained on: once all rows are tokenised, or each shard of them as it is finished."""


@dataclass(frozen=True, kw_only=True)
class StoredOptions:
    """Keywords that every builder has; :func:`~torchpipe.datasets.sft_dataset` says what each of them means.

    A builder takes them from its keywords (:meth:`taken_from`), gives its recipe what concerns the rows
    (:meth:`row_fields`), and gets its data set from :meth:`built`.

    Attributes:
        max_seq_len: tokens of a pack; None: the tokenizer's.

    Raises:
        ConfigError: a value is not possible, or has no effect.
    """

    packed: bool = False
    split_across_pack: bool = False
    max_seq_len: int | None = None
    strategy: PackingStrategy | str | None = None
    cache: bool = False
    cache_dir: str | None = None
    num_proc: int | None = None
    start: Start = "when_complete"
    shard_rows: int | None = None
    fingerprint: Literal["ends", "content"] = "ends"
    on_error: OnError = "raise"
    max_error_share: float = 1.0
    quarantine_file: str | None = None
    on_untrained: OnUntrained = "leave_out"
    holdout: Holdout | Mapping[str, Any] | None = None
    drop_duplicates: bool | Sequence[str] = False
    streaming: bool = False

    def __post_init__(self) -> None:
        if self.streaming and (self.is_stored or self.quarantine_file is not None):
            raise ConfigError(
                "streaming=True reads rows one after another, and packed, cache and quarantine_file need all of them, "
                "by number. Leave one of the two out; a graph of torchpipe.pipeline packs streams (docs/pipeline.md)."
            )
        if self.split_across_pack and not self.packed:
            raise ConfigError("split_across_pack=True has no effect without packed=True. Set both or neither.")
        if self.fingerprint not in ("ends", "content"):
            raise ConfigError(f"fingerprint is {self.fingerprint!r}. It is 'ends' or 'content'.")
        if self.fingerprint == "content" and not self.is_stored:
            raise ConfigError(
                "fingerprint='content' has no effect without packed=True or cache=True, which store rows."
            )
        self._check_start()
        _ = (self.row_policy, self.duplicates, Holdout.of(self.holdout))  # which refuse what is not possible
        if self.row_policy.leaves_out and not (self.is_stored or self.streaming):
            raise ConfigError(
                f"on_error={self.on_error!r} gives a row no sample, and without a store row k is sample k. Store "
                "the rows (cache=True, or packed=True where they can be packed), or set on_error to 'raise'."
            )

    def _check_start(self) -> None:
        if self.start not in (words := get_args(Start)):
            raise ConfigError(
                f"start is {self.start!r}. It is one of {listed(words)}.{did_you_mean(self.start, words)}"
            )
        if self.start == "by_shard" and not self.packed:
            raise ConfigError("start='by_shard' has no effect without packed=True. Set both or neither.")
        if self.shard_rows is not None and self.start != "by_shard":
            raise ConfigError(
                f"shard_rows={self.shard_rows!r} has no effect without start='by_shard'. Set both or neither."
            )

    @classmethod
    def taken_from(cls, keywords: Mapping[str, Any], **given: Any) -> tuple["StoredOptions", dict[str, Any]]:
        """The options among a builder's keywords, and the keywords that are left, for ``load_dataset``.

        Args:
            keywords: of the builder.
            given: options that the builder has as parameters of its own.
        """
        names = {field.name for field in fields(cls)}
        taken = {name: value for name, value in keywords.items() if name in names}
        rest = {name: value for name, value in keywords.items() if name not in names}
        return cls(**taken, **given), rest

    @property
    def is_stored(self) -> bool:
        """Whether samples are tokenised once, into a store."""
        return self.packed or self.cache

    @property
    def row_policy(self) -> RowPolicy:
        """What becomes of bad rows."""
        return RowPolicy(
            on_error=self.on_error,
            max_error_share=self.max_error_share,
            quarantine_file=self.quarantine_file,
            on_untrained=self.on_untrained,
        )

    def row_fields(self, source: Source, load_dataset_kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a :class:`~torchpipe.store.source_recipe.SourceRecipe` that these options decide.

        Raises:
            ConfigError: a keyword was meant for a builder, and is no option of ``load_dataset``.
        """
        load_dataset_kwargs = dict(load_dataset_kwargs)
        refuse_misspelt(load_dataset_kwargs)
        if isinstance(source, str):
            load_dataset_kwargs.setdefault("split", "train")
            shared = {"cache_dir": self.cache_dir} | ({} if self.is_stored else {"num_proc": self.num_proc})
            load_dataset_kwargs |= {name: value for name, value in shared.items() if value is not None}
        if self.streaming:
            load_dataset_kwargs[STREAMING] = True
        return {
            "source": source,
            "load_dataset_kwargs": load_dataset_kwargs,
            "content": self.fingerprint == "content",
            "row_policy": self.row_policy,
            "holdout": Holdout.of(self.holdout),
            "duplicates": self.duplicates,
        }

    @property
    def duplicates(self) -> Duplicates | None:
        """Which rows count as duplicates; None keeps them.

        Raises:
            ConfigError: ``drop_duplicates`` is neither true or false nor a list of columns.
        """
        given = self.drop_duplicates
        if isinstance(given, bool):
            return Duplicates() if given else None
        if isinstance(given, str) or not given or not all(isinstance(column, str) for column in given):
            raise ConfigError(
                f"drop_duplicates is {given!r}. It is true (rows are compared as a whole), false, or a list of the "
                "columns that are compared."
            )
        return Duplicates(columns=list(given))

    def capacity(self, tokenizer: Any) -> int | None:
        """Tokens of a pack; None where nothing is packed.

        Raises:
            ConfigError: neither these options nor the tokenizer say it.
        """
        if not self.packed:
            return None
        capacity = tokenizer.max_seq_len if self.max_seq_len is None else self.max_seq_len
        if capacity is None:
            raise ConfigError(
                "packed=True needs the length of a pack: a max_seq_len has to be set on the tokenizer "
                "(tokenizer.max_seq_len=...)."
            )
        return capacity

    def built(
        self,
        recipe: StoreRecipe,
        tokenizer: Any,
        *,
        unstored: Callable[[Any], Any],
        stored: Callable[..., Any] = StoredDataset,
        **packing: Any,
    ) -> Any:
        """The data set of a recipe's samples.

        Args:
            recipe: of the samples.
            tokenizer: whose max_seq_len and pad_id a pack has.
            unstored: the recipe to its map-style data set, where nothing is stored.
            stored: the recipe, ``cache_dir`` and ``num_proc`` to the data set of its store, without packing.
            packing: further arguments of :class:`~torchpipe.datasets.PackedDataset`.

        Raises:
            ConfigError: ``packed`` without a max_seq_len.
        """
        if self.streaming and isinstance(recipe, SourceRecipe):
            return StreamedDataset(recipe)
        capacity = self.capacity(tokenizer)
        if capacity is not None:
            options: dict[str, Any] = {
                "max_seq_len": capacity,
                "padding_idx": getattr(tokenizer, "pad_id", 0),
                "split_across_pack": self.split_across_pack,
                "strategy": self.strategy,
                "cache_dir": self.cache_dir,
                "num_proc": self.num_proc,
                **packing,
            }
            if self.start == "by_shard" and asked_for() is None:  # a look at the first packs builds nothing
                return GrowingPackedDataset(recipe, shard_rows=self.shard_rows or SHARD_ROWS, **options)
            return PackedDataset(recipe, **options)
        if self.cache:
            return stored(recipe, cache_dir=self.cache_dir, num_proc=self.num_proc)
        return unstored(recipe)


# What some builder takes beside StoredOptions. None of it is an option of load_dataset.
_BUILDER_KEYWORDS = (
    *(field.name for field in fields(StoredOptions) if field.name not in ("cache_dir", "num_proc")),
    *("masking_strategy", "filter_fn", "overflow", "truncation_type", "stop_token", "message_transform", "column_map"),
    *("conversation_column", "conversation_style", "new_system_prompt", "train_on_input", "tools_column"),
    *("pack_len", "max_prompt_len", "max_response_len", "prompt_truncation", "on_equal", "on_prompts_differ"),
    *("keep_columns",),
    *("system_column", "split_reasoning", "column", "add_bos", "add_eos", "shapes", "encoding", "control_tokens"),
)


def refuse_misspelt(load_dataset_kwargs: Mapping[str, Any]) -> None:
    """Refuses a keyword that was meant for a builder, which load_dataset would answer with its own internals.

    Raises:
        ConfigError: says which, and the nearest name.
    """
    for key in load_dataset_kwargs:
        if key in _BUILDER_KEYWORDS:
            raise ConfigError(f"This builder does not take {key!r}, and load_dataset does not either. Remove it.")
        if near := did_you_mean(key, _BUILDER_KEYWORDS, cutoff=0.8):
            raise ConfigError(f"{key!r} is not an option of this builder or of load_dataset.{near}")
