"""The rows of one source as data sets of Grain: read by number, or as a stream."""

from collections.abc import Callable
from typing import Any

from torchpipe._seeds import derive
from torchpipe.data.protocols import can_be_read_ahead
from torchpipe.errors import KindError
from torchpipe.pipeline.by_grain.in_vain import InVain
from torchpipe.pipeline.by_grain.ledger import NodeLedger
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.numbered_rows import NumberedRows, StreamShare
from torchpipe.pipeline.by_grain.order import EpochOrder, none_left
from torchpipe.pipeline.by_grain.reading import GrainDataset
from torchpipe.pipeline.by_grain.row_maker import RowMaker
from torchpipe.pipeline.by_grain.window import ShuffledWindows
from torchpipe.pipeline.child_policies import seed_32
from torchpipe.pipeline.dataset import SingleDatasetConfig
from torchpipe.pipeline.node_label import node_label
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy


def built_single(
    config: SingleDatasetConfig, context: DatasetBuildContext, policy: DatasetIterationPolicy
) -> GrainDataset:
    """The data set of a :class:`~torchpipe.pipeline.SingleDatasetConfig`; see there."""
    source: Any = config.source
    by_number = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    if not by_number and callable(getattr(source, "build", None)):
        source = source.build(dataset_iteration_policy=policy)
    is_stream = isinstance(source, grain.IterDataset)
    if not is_stream and not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        raise KindError(
            f"source must be a RandomAccessDataSource or grain.IterDataset; got {type(source).__qualname__} of "
            f"{type(config.source).__qualname__}. Give it __len__ and __getitem__, or make it a grain.IterDataset."
        )
    called = config.name or type(source).__name__
    maker = RowMaker(
        pre_filters=config.pre_filters,
        processor=None if config.processor is None else config.processor.build(context=context),
        post_filters=config.post_filters,
        policy=config.row_policy,
        called=called,
        num_rows=None if is_stream else len(source),
        ledger=NodeLedger(node_label(config)),
    )
    if not is_stream:
        is_safe = can_be_read_ahead(source) and maker.can_be_read_ahead
        rows = grain.MapDataset.source(source)
        made = MadeRows(rows, maker, seed=seed_32(policy.seed, "processor"), can_be_read_ahead=is_safe)
        return EpochOrder(made, policy, called=called)
    # What a config builds has taken its part already, and begins again by itself.
    share = StreamShare.of(policy) if source is config.source else StreamShare()
    numbered: grain.IterDataset[Any] = NumberedRows(source, share=share, called=called)
    if policy.shuffle:
        size, seed = policy.streaming_shuffle_buffer_size, derive(policy.seed, "windows", policy.dp_rank)
        numbered = ShuffledWindows(numbered, window_size=size, seed=seed)
    return MadeStream(numbered, maker, seed=seed_32(policy.seed, "processor", policy.dp_rank), called=called)


class MadeRows(grain.MapDataset[Any]):
    """What filters and a processor make of the rows of a source; None where a row is left out.

    A processor that draws random numbers draws others for each row, and in each epoch, whatever the order.

    Args:
        parent: the rows.
        maker: what makes something of them.
        seed: of the processor's random numbers.
        can_be_read_ahead: whether source and processor say that several threads may ask them at once.
    """

    def __init__(
        self, parent: grain.MapDataset[Any], maker: RowMaker, *, seed: int, can_be_read_ahead: bool = False
    ) -> None:
        super().__init__(parent)
        self._maker = maker
        self.can_be_read_ahead = can_be_read_ahead
        self._generators = grain.experimental.RngPool(seed)

    @property
    def ledger(self) -> NodeLedger:
        """What became of the rows."""
        return self._maker.ledger

    @property
    def may_leave_out(self) -> bool:
        """Whether a row may be None."""
        return self._maker.may_leave_out

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        return _made(self._maker, self._generators, index, index % len(self), lambda: self._parent[index])

    def __str__(self) -> str:
        return f"MadeRows({self.ledger.name})"


class MadeStream(grain.IterDataset[Any]):
    """What filters and a processor make of the rows of a stream, without those that are left out.

    Args:
        parent: the rows and their numbers.
        maker: what makes something of them.
        seed: of the processor's random numbers; a row's depend on how many the stream gave before it.
        called: what errors call it.
    """

    def __init__(self, parent: grain.IterDataset[Any], maker: RowMaker, *, seed: int, called: str) -> None:
        super().__init__(parent)
        self._maker = maker
        self._generators = grain.experimental.RngPool(seed)
        self.called = called

    @property
    def ledger(self) -> NodeLedger:
        """What became of the rows."""
        return self._maker.ledger

    def __iter__(self) -> grain.DatasetIterator[Any]:
        parent = self._parent
        return _MadeIterator(parent.__iter__(), self, self._maker, self._generators)

    def __str__(self) -> str:
        return f"MadeStream({self.called})"


class _MadeIterator(grain.DatasetIterator[Any]):
    def __init__(
        self, parent: grain.DatasetIterator[Any], stream: MadeStream, maker: RowMaker, generators: Any
    ) -> None:
        super().__init__(parent)
        self._stream = stream
        self._maker = maker
        self._generators = generators
        self._in_vain = InVain(stream.parents[0])

    def __next__(self) -> Any:
        while True:
            try:
                place, number, row = next(self._parent)
            except StopIteration:
                self._maker.ended()
                raise
            made = _made(self._maker, self._generators, place, number, lambda row=row: row)
            if made is not None:
                self._in_vain.reset()
                return made
            if self._in_vain.one_more():
                raise none_left(f"{self._stream.called}, its last rows", self._in_vain.count, self._stream)

    def get_state(self) -> dict[str, Any]:
        return self._parent.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state)


def _made(maker: RowMaker, generators: Any, index: int, number: int, read: Callable[[], Any]) -> Any:
    """What becomes of row ``number``, with the random numbers that belong to ``index``."""
    if not maker.draws:
        return maker(number, read, None)
    rng = generators.acquire_rng(index)
    try:
        return maker(number, read, rng)
    finally:
        generators.release_rng(rng)
