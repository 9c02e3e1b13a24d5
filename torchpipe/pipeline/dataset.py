"""The nodes of a graph that give rows one by one: a single source, a weighted mix of nodes, and one after the other.

They are values: built twice with the same context and policy they give the same rows. ``build`` gives a data set of
Grain, which is imported then.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.row_policy import OnError, RowPolicy
from torchpipe.errors import ConfigError, KindError
from torchpipe.pipeline.functions import as_function
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy

if TYPE_CHECKING:
    import grain

    GrainDataset: TypeAlias = grain.MapDataset[Any] | grain.IterDataset[Any]

MixBy = Literal["rows", "tokens", "trained_tokens"]
"""What the weights of a mix are shares of."""

MixStop = Literal["first", "all"]
"""When a mix whose children end is over: before one of them would have to begin again, or once each was gone through
all of it."""


class DatasetConfig(Protocol):
    """A node of a graph, as a value."""

    def build(
        self, *, context: DatasetBuildContext, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "GrainDataset":
        """The rows: by number, or as a stream."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SingleDatasetConfig:
    """The rows of one source, filtered and processed.

    In this order: filters of rows, the processor, filters of what it gives, the shuffle, and this rank's part. Rows
    that are left out are counted (:func:`torchpipe.pipeline.by_grain.ledger.graph_ledger`).

    A stream is shuffled first, some rows at a time. One that a config builds takes its part itself, and begins again
    itself. One that is given as it is knows of neither: each rank, or logical shard, reads all of it and keeps every so
    many-th row, and where it ends and rows repeat, it begins again from its first state.

    Attributes:
        source: a value that builds one (:class:`~torchpipe.pipeline.SourceConfig`); or an object with ``__len__`` and
            ``__getitem__``, such as a list or a data set of :mod:`torchpipe.datasets`; or a ``grain.IterDataset``.
        pre_filters: functions of a row, or their dotted names; it stays where all are true.
        processor: the ``Config`` of a :class:`~torchpipe.pipeline.SampleProcessor`; None: rows are what it would give,
            or samples of :mod:`torchpipe.datasets`.
        post_filters: functions of what the processor gives.
        on_error, max_error_share, quarantine_file: what becomes of a row that raises a
            :class:`~torchpipe.errors.DataError`; see :class:`~torchpipe.data.row_policy.RowPolicy`.
        name: what its order is hashed from, and what errors call it; None: a hash of the settings.

    Raises:
        KindError: the source is neither, or the processor no config of one.
        ConfigError: an option is not possible, or a filter can't be called.
    """

    function_arguments: ClassVar[tuple[str, ...]] = ("pre_filters", "post_filters")
    source: Any
    pre_filters: Sequence[Any] = ()
    processor: Any = None
    post_filters: Sequence[Any] = ()
    on_error: OnError = "raise"
    max_error_share: float = 1.0
    quarantine_file: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        for field in ("pre_filters", "post_filters"):
            given = _tuple(getattr(self, field), field)
            object.__setattr__(self, field, tuple(as_function(one, field) for one in given))
        if self.processor is not None and not callable(getattr(self.processor, "build", None)):
            raise KindError(
                f"processor is {_kind(self.processor)}, and has to be the Config of a SampleProcessor, such as "
                "TextProcessor.Config(). Its build(context=) makes the processor."
            )
        if not _is_source(self.source):
            raise KindError(
                f"source must be a RandomAccessDataSource or grain.IterDataset; got {_kind(self.source)}. Give a value "
                "whose build(dataset_iteration_policy=) makes one, such as IndexedJsonlSource.Config, or an object "
                "with __len__ and __getitem__."
            )
        _ = self.row_policy

    @property
    def row_policy(self) -> RowPolicy:
        """What becomes of rows that can't be used."""
        return RowPolicy(
            on_error=self.on_error,
            max_error_share=self.max_error_share,
            quarantine_file=self.quarantine_file,
            on_untrained="keep",
        )

    def build(
        self, *, context: DatasetBuildContext, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "GrainDataset":
        """A ``grain.MapDataset`` of a source that is read by number, a ``grain.IterDataset`` of a stream.

        Raises:
            ConfigError: there are fewer rows than ranks.
            KindError: the source's ``build`` gave neither.
        """
        from torchpipe.pipeline.by_grain.single import built_single

        return built_single(self, context, dataset_iteration_policy)


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedDataset:
    """A child of a mix.

    Attributes:
        dataset: its rows, a :class:`DatasetConfig`.
        weight: its share, relative to the others'; or a weight by the first item of the mix that it holds for, as
            ``{0: 1.0, 10_000: 0.5}``.
        max_epochs: how often it may be gone through, 0.5 for half of it; then it gives no more, and the others go on.
            None: as often as the mix needs it. What is a stream has whole passes alone, all in one order.
        name: what its order is hashed from; None: the name of ``dataset``, or else a hash of its settings.
    """

    dataset: Any
    weight: float | Mapping[int, float] = 1.0
    max_epochs: float | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_node(self.dataset, "The dataset of a WeightedDataset")
        if isinstance(self.weight, Mapping):
            weights = {_whole(key): value for key, value in self.weight.items()}
            if 0 not in weights or any(key is None or key < 0 for key in weights):
                raise ConfigError(
                    f"The weight of {self.name or 'a child'} begins at the items {listed(self.weight)} of the mix. "
                    "Give whole numbers, and 0 among them."
                )
            object.__setattr__(self, "weight", dict(sorted(weights.items())))
        epochs = self.max_epochs
        if epochs is not None and not _is_positive(epochs):
            raise ConfigError(f"max_epochs is {epochs!r}. Give a number above 0, or leave it out for no limit.")

    @property
    def named(self) -> Any:
        """The data set, which has the child's name where it can have one."""
        fields = getattr(self.dataset, "__dataclass_fields__", {})
        return self.dataset if self.name is None or "name" not in fields else replace(self.dataset, name=self.name)

    @property
    def weights(self) -> dict[int, float]:
        """The weight by the first item of the mix that it holds for."""
        return dict(self.weight) if isinstance(self.weight, Mapping) else {0: self.weight}


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetMixConfig:
    """Rows of several nodes, so that each gives its share.

    A row that a child leaves out counts for nothing: weights are shares of what the mix gives. Each child has the order
    that is hashed from its own name, whatever stands beside it.

    Attributes:
        datasets: the children.
        by: see :data:`MixBy`.
        stop: see :data:`MixStop`. Children that begin again by themselves (``repeat``) end with ``max_epochs`` alone.
        name: see :class:`SingleDatasetConfig`.

    Raises:
        ConfigError: there is no child, or a weight is not a number above 0.
    """

    datasets: Sequence[WeightedDataset]
    by: MixBy = "rows"
    stop: MixStop = "first"
    name: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "datasets", _tuple(self.datasets, "datasets"))
        if wrong := next((child for child in self.datasets if not isinstance(child, WeightedDataset)), None):
            raise KindError(
                f"datasets of a DatasetMixConfig holds {_kind(wrong)}. Put it into a WeightedDataset(dataset=)."
            )
        for child in self.datasets:
            for weight in child.weights.values():
                if not _is_positive(weight):
                    raise ConfigError(
                        "DatasetMixConfig requires finite, positive-weight datasets; the weight of "
                        f"{child.name or _kind(child.dataset)} is {weight!r}. To leave a child out, take it out."
                    )
        if not self.datasets:
            raise ConfigError(
                "DatasetMixConfig requires finite, positive-weight datasets; it has none. Give one or more."
            )
        for field, value, allowed in (("by", self.by, get_args(MixBy)), ("stop", self.stop, get_args(MixStop))):
            if value not in allowed:
                near = did_you_mean(value, allowed)
                raise ConfigError(f"{field} is {value!r}. It is one of {listed(allowed)}.{near}")

    def build(
        self, *, context: DatasetBuildContext, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "GrainDataset":
        """A ``grain.MapDataset`` of children that are such, mixed by rows up to the end of the first; otherwise a
        ``grain.IterDataset``.
        """
        from torchpipe.pipeline.by_grain.mix import built_mix

        return built_mix(self, context, dataset_iteration_policy)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetConcatConfig:
    """The rows of several nodes as those of one: shuffled, divided among ranks and repeated together.

    A child may stand there several times. Its random processors then draw other numbers each time.

    Attributes:
        datasets: the children, whose rows are read by number.
        name: see :class:`SingleDatasetConfig`.
    """

    datasets: Sequence[Any]
    name: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "datasets", _tuple(self.datasets, "datasets"))
        if not self.datasets:
            raise KindError("DatasetConcatConfig requires map-style children; it has none. Give one or more.")
        for child in self.datasets:
            check_node(child, "A child of a DatasetConcatConfig")

    def build(
        self, *, context: DatasetBuildContext, dataset_iteration_policy: DatasetIterationPolicy
    ) -> "GrainDataset":
        """A ``grain.MapDataset``.

        Raises:
            KindError: a child is a stream.
            ConfigError: there are fewer rows than ranks.
        """
        from torchpipe.pipeline.by_grain.concat import built_concat

        return built_concat(self, context, dataset_iteration_policy)


def check_node(value: object, what: str) -> None:
    """Refuses what is no node of a graph.

    Raises:
        KindError: it has no ``build``.
    """
    if not callable(getattr(value, "build", None)) or isinstance(value, WeightedDataset):
        raise KindError(
            f"{what} is {_kind(value)}. Give a value whose build(context=, dataset_iteration_policy=) makes a data "
            "set, such as SingleDatasetConfig."
        )


def check_name(name: object) -> None:
    """Refuses a name that is no text.

    Raises:
        ConfigError: it is something else, or empty.
    """
    if name is not None and (not isinstance(name, str) or not name):
        raise ConfigError(f"A name is {name!r}. Give a text, or leave it out.")


def _tuple(given: Any, field: str) -> tuple[Any, ...]:
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__iter__"):
        raise KindError(f"{field} is {_kind(given)}. Give several as a list or a tuple.")
    return tuple(given)


def _is_source(value: object) -> bool:
    if isinstance(value, type | str | bytes | Mapping):
        return False
    by_number = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    # A grain.IterDataset has parents and begins with iter(); asking for its class would import Grain.
    return by_number or callable(getattr(value, "build", None)) or hasattr(value, "__iter__")


def _is_positive(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value > 0


def _whole(key: object) -> int | None:
    """The whole number that a key of a mapping is; YAML may have it as a text."""
    if isinstance(key, str) and key.isdecimal():
        return int(key)
    return key if isinstance(key, int) and not isinstance(key, bool) else None


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a {type(value).__qualname__}" if value is not None else "None"
