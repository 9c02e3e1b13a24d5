"""The loader of a graph: batches for one rank, the same ones wherever a run was stopped, on any number of ranks."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from torchpipe._progress import say
from torchpipe.config.configurable import Configurable
from torchpipe.errors import ConfigError
from torchpipe.pipeline.collators import Collator, TextCollator, TrainerBatch
from torchpipe.pipeline.epochs import epochs_of
from torchpipe.pipeline.loader_options import GraphBalance, check_options
from torchpipe.pipeline.planned.batches import PlannedBatches
from torchpipe.pipeline.planned.leaf import CannotPlan
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy

if TYPE_CHECKING:
    import grain


class DataloaderExhaustedError(Exception):
    """A loader has no more batches, and a step needs one. It is no StopIteration, which would end a generator."""


class BaseDataLoader(Configurable, ABC):
    """Iterates batches of ``(inputs, labels)``, and can be stopped and gone on with (``Stateful`` of torch's
    ``distributed.checkpoint``).
    """

    class Config(Configurable.Config):
        """The settings; a subclass adds fields, in a dataclass that may be changed or in a frozen one."""

        __slots__ = ()

    @abstractmethod
    def __iter__(self) -> Iterator[TrainerBatch]:
        """The batches from where the loader stands on."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lets the loader go on where a state says."""

    def close(self) -> None:  # most have nothing to end
        """Ends threads and processes."""


class GrainDataLoader(BaseDataLoader):
    """The batches of a graph for one rank.

    A graph of sources that are read by number and processors that draw no random numbers is planned: every source is
    tokenised once, into a store that all ranks share, and each epoch's rows are a pure function of lengths, seed and
    epoch. Anything else is run by Grain, in a fixed number of logical shards, and a line says so.

    Either way row k of the run is the same row for every number of ranks and workers. Where the rows end, each was
    given exactly once, all ranks have had the same number of batches, and the last ones are filled with padding, which
    counts for nothing.

    Iterating again goes on; it never begins again.

    Args:
        config: the settings.
        dp_world_size, dp_rank: the data-parallel ranks (replicas times shards), and which of them this is; see
            :func:`~torchpipe.pipeline.data_parallel_rank`. Ranks of one number get the same batches.
        tokenizer: handed to the processors and the collator.
        max_context_length: tokens of the longest document.
        num_tokens_per_batch: tokens of a row, which one rank trains on at once.

    Attributes:
        why_not_planned: why Grain runs the graph; None where it is planned.

    Raises:
        ConfigError: arguments don't fit.
        TypeError: an unknown argument.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """What a loader is described by.

        Attributes:
            dataset: the uppermost node of the graph.
            collator: makes batches of rows.
            seed, shuffle: of all orders.
            repeat: whether there is an epoch after the last row; num_epochs: how many there are, where there is an end.
                None: one without ``repeat``, any number with it.
            streaming_shuffle_buffer_size: rows that a stream is shuffled in at a time.
            read_options: see :class:`~torchpipe.pipeline.DatasetBuildContext`.
            num_prefetch_batches: batches that a thread makes ready while one is trained on.
            num_workers: processes that make batches; 0: none. Batches are the same for any number.
            max_num_documents: the most documents of a packed row.
            balance: how the rows of a step go to the ranks of a planned graph: "within_step", where they even out what
                the ranks' rows cost; or "none", in order. Which rows a step has is the same.
            planned: True: the graph has to be planned, and an error says why it can't be; False: Grain runs it; None:
                as it can be.
            num_logical_shards: into how many parts Grain runs the graph, whatever the number of ranks; it is kept
                in the state. None: as many as there are ranks at the first start.
            cache_dir, num_proc: of stores, see :func:`~torchpipe.store.build.build_store`.
            allow_changed: nodes and settings that may differ from those of a state.
        """

        dataset: Any
        collator: Any = field(default_factory=TextCollator.Config)
        seed: int = 42
        shuffle: bool = True
        repeat: bool = True
        num_epochs: int | None = None
        streaming_shuffle_buffer_size: int = 1_000
        read_options: "grain.ReadOptions | None" = None
        num_prefetch_batches: int = 2
        num_workers: int = 0
        max_num_documents: int | None = None
        balance: GraphBalance = "within_step"
        planned: bool | None = None
        num_logical_shards: int | None = None
        cache_dir: str | None = None
        num_proc: int | None = None
        allow_changed: tuple[str, ...] = ()

    def __init__(
        self,
        config: Config,
        *,
        tokenizer: Any,
        max_context_length: int,
        num_tokens_per_batch: int,
        dp_world_size: int = 1,
        dp_rank: int = 0,
    ) -> None:
        self.config = config
        check_options(config)
        self.context = DatasetBuildContext(
            tokenizer=tokenizer,
            max_context_length=max_context_length,
            num_tokens_per_batch=num_tokens_per_batch,
            read_options=config.read_options,
            max_num_documents=config.max_num_documents,
        )
        self.policy = DatasetIterationPolicy(
            seed=config.seed,
            shuffle=config.shuffle,
            repeat=config.repeat,
            dp_rank=dp_rank,
            dp_world_size=dp_world_size,
            streaming_shuffle_buffer_size=config.streaming_shuffle_buffer_size,
        )
        self.collator: Collator = config.collator.build(context=self.context)
        num_rows: object = self.collator.num_rows_per_batch()
        if isinstance(num_rows, bool) or not isinstance(num_rows, int) or num_rows < 1:
            raise ConfigError(
                f"num_rows_per_batch of {type(self.collator).__name__} gives {num_rows!r}. It is a whole "
                "number, 1 or more."
            )
        self.why_not_planned: str | None = None
        self._source: BatchSource = self._batches()
        self._iterator: Iterator[TrainerBatch] | None = None

    def _batches(self) -> "BatchSource":
        if self.config.planned is not False:
            try:
                return PlannedBatches(self.config, context=self.context, policy=self.policy, collator=self.collator)
            except CannotPlan as why:
                if self.config.planned:
                    raise ConfigError(
                        f"planned is True, and the graph can't be planned: {why}. Leave planned out, and Grain runs it."
                    ) from None
                self.why_not_planned = str(why)
                say(f"Grain runs this graph, as rows come: {why}.")
        else:
            self.why_not_planned = "planned is False"
        from torchpipe.pipeline.by_grain.batches import StreamBatches  # imports Grain

        return StreamBatches(self.config, context=self.context, policy=self.policy, collator=self.collator)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A GrainDataLoader can't be copied or sent to another process: it holds files and threads. Build its "
            "config again, and give that loader the state_dict() of this one."
        )

    def anew(self) -> "GrainDataLoader":
        """Another loader of the same graph, which stands at the begin."""
        return self._another(self.config, self.policy)

    def alone(self) -> "GrainDataLoader":
        """Another loader of the same run for one rank that has all batches. It stands at the begin."""
        shards = self.config.num_logical_shards or self.policy.dp_world_size
        config = dataclasses.replace(self.config, num_logical_shards=shards, num_workers=0)
        return self._another(config, dataclasses.replace(self.policy, dp_rank=0, dp_world_size=1))

    def _another(self, config: Config, policy: DatasetIterationPolicy) -> "GrainDataLoader":
        """A loader with the rows of this one: what was opened and planned is shared."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.config, other.policy, other._iterator = config, policy, None
        other.collator = config.collator.build(context=self.context)
        other._source = self._source.anew(config, policy=policy, collator=other.collator)
        return other

    @property
    def is_planned(self) -> bool:
        """Whether the graph is planned."""
        return isinstance(self._source, PlannedBatches)

    @property
    def rows(self) -> "BatchSource":
        """What makes the batches: rows and plan of a planned graph, or the parts that Grain runs."""
        return self._source

    @property
    def num_rows(self) -> int | None:
        """The rows of the run over all ranks, where it is known that it ends and with how many."""
        num_epochs = self.config.num_epochs or (None if self.config.repeat else 1)
        if num_epochs is None or not isinstance(self._source, PlannedBatches):
            return None
        return self._source.num_rows(num_epochs)

    @property
    def epoch(self) -> int | None:
        """The epoch of the next row, from 0 on; None where Grain runs the graph."""
        return self._source.epoch

    @property
    def ledger(self) -> dict[str, Mapping[str, Any]]:
        """What became of the rows at each node of the graph, by its name."""
        return self._source.ledger()

    def __iter__(self) -> Iterator[TrainerBatch]:
        if self._iterator is None:
            self._iterator = self._source.batches()
        return self._iterator

    def epochs(self) -> Iterator[tuple[int, Iterator[TrainerBatch]]]:
        """The epochs of a planned graph from here on: the number of each, and its batches.

        The order of rows goes on over the ends of epochs, and the ranks' next batches may hold rows of two: they are
        of the epoch that their first row is of, which is the same on all ranks. An epoch all of whose rows stand
        behind such a first row has no batches, and is not given.

        Iterating it goes on as the loader does, also in the middle of an epoch.

        Raises:
            ConfigError: Grain runs the graph; or the next epoch is asked for before all batches of one were taken.
        """
        return epochs_of(self)

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands after the batch that was given out last: numbers and texts, the same on every rank.

        It holds ``version``, ``way`` ("planned" or "grain"), the place (``epoch`` and ``row``; or ``batch``,
        ``num_logical_shards`` and ``parts``, the states of Grain), and ``graph``: what decides the rows. It does not
        hold how many ranks or workers there were.

        Where Grain runs the graph for several processes of ``torch.distributed``, each tells the others of its parts:
        all of them have to call this, as ``torch.distributed.checkpoint`` does. Without ``torch.distributed`` a rank
        knows its own parts, and :func:`~torchpipe.pipeline.merged_states` makes one state of those of all ranks.
        """
        return self._source.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lets the run go on where a state says; an empty one changes nothing.

        Raises:
            LoaderStateError: it is damaged, or of other rows; what differs is named.
        """
        if isinstance(state_dict, Mapping) and not state_dict:
            return
        self.close()
        self._source.load_state_dict(state_dict)

    def close(self) -> None:
        """Ends the thread and the processes that make batches ready. Iterating goes on behind the last one given."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()
        self._iterator = None


class BatchSource(Protocol):
    """What makes the batches of one rank."""

    @property
    def epoch(self) -> int | None:
        """The epoch of the next row, where that is known."""
        ...

    def anew(self, config: Any, *, policy: DatasetIterationPolicy, collator: Collator) -> "BatchSource":
        """The same rows from the first one on."""
        ...

    def batches(self) -> Iterator[TrainerBatch]:
        """The batches from where it stands on."""
        ...

    def ledger(self) -> dict[str, Mapping[str, Any]]:
        """What became of the rows at each node."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where it stands."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state says."""
        ...


def exhausting(loader: BaseDataLoader) -> Iterator[TrainerBatch]:
    """The batches of a loader; behind the last one, an error that a step in need of one can be left out for.

    Raises:
        DataloaderExhaustedError: there is no more.
    """
    yield from loader
    raise DataloaderExhaustedError("The loader has no more batches. Set repeat=True or more num_epochs to go on.")
