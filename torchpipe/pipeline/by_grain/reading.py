"""Grain's data sets as nodes of a graph give them, and how they are read."""

from collections import deque
from time import perf_counter, thread_time
from typing import Any, TypeAlias

from torchpipe._progress import say
from torchpipe.pipeline.by_grain.ledger import graph_ledger
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.pace import GivenPace, Meter, Pace, TunedPace, WatchedPace, Window
from torchpipe.pipeline.by_grain.row_threads import RowAhead, RowThreads, most_given, room_for_threads
from torchpipe.pipeline.types import DatasetBuildContext

GrainDataset: TypeAlias = grain.MapDataset | grain.IterDataset
"""What a node of a graph builds: rows by number, or a stream."""

IN_THIS_THREAD = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
"""No threads."""


def as_stream(dataset: GrainDataset, context: DatasetBuildContext) -> grain.IterDataset[Any]:
    """The rows one after the other, without those that are left out; read as the context says."""
    if isinstance(dataset, grain.IterDataset):
        return dataset
    return read_in_order(dataset, context.read_options)


def read_in_order(
    dataset: grain.MapDataset[Any], read_options: grain.ReadOptions | None, *, allow_nones: bool = False
) -> grain.IterDataset[Any]:
    """The rows one after the other.

    Args:
        dataset: the rows by number. A class of its own way to be read in order is read in that way.
        read_options: threads, and how many rows they read ahead; None: as rows that wait call for.
        allow_nones: whether what is left out is None, or not there.
    """
    if type(dataset).to_iter_dataset is not grain.MapDataset.to_iter_dataset:
        return dataset.to_iter_dataset(read_options, allow_nones=allow_nones)
    return RowsInOrder(dataset, read_options, allow_nones=allow_nones)


class RowsInOrder(grain.IterDataset[Any]):
    """The rows of a data set one after the other, from threads where rows wait.

    Which rows there are, in which order, what is counted of them and where an error is raised does not depend on
    threads. A row that was read ahead counts when it is given.

    Args:
        parent: the rows by number.
        read_options: how many threads, and rows that they read ahead; None: none at first, and then as many as help,
            see :class:`~torchpipe.pipeline.by_grain.pace.TunedPace`, where sources and processors say that several may
            ask them (:func:`~torchpipe.data.protocols.can_be_read_ahead`). A mix that is read by number is read without
            any.
        allow_nones: whether what is left out is None, or not there.
    """

    def __init__(
        self,
        parent: grain.MapDataset[Any],
        read_options: grain.ReadOptions | None = None,
        *,
        allow_nones: bool = False,
    ) -> None:
        super().__init__(parent)
        self._read_options: Any = read_options
        self._allow_nones = allow_nones

    def __iter__(self) -> grain.DatasetIterator[Any]:
        rows: Any = self._parent
        return RowsIterator(rows, self._pace(), allow_nones=self._allow_nones)

    def _pace(self) -> Pace:
        options = self._read_options
        if _is_read_in_order_alone(self._parent):
            return GivenPace(0, 0)
        if options is not None:
            return GivenPace(int(options.num_threads), int(options.prefetch_buffer_size), most_given)
        return TunedPace(room_for_threads) if _can_be_read_ahead(self._parent) else WatchedPace()

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keeps a slice of the rows: Grain's processes share them so."""
        rows: Any = self._parent
        whole: Any = grain.MapDataset.to_iter_dataset(rows, IN_THIS_THREAD)
        whole.set_slice(sl, sequential_slice)
        self._parents = whole.parents

    def __str__(self) -> str:
        return f"RowsInOrder({self._parent})"


class RowsIterator(grain.DatasetIterator[Any]):
    """Reads rows in order. Its state is ``{"next_index": int}``, as Grain's own, whatever was read ahead.

    Args:
        dataset: the rows by number.
        pace: with how many threads they are read.
        allow_nones: whether what is left out is None, or not there.
    """

    def __init__(self, dataset: grain.MapDataset[Any], pace: Pace, *, allow_nones: bool = False) -> None:
        super().__init__()
        self._dataset = dataset
        self._num_rows = len(dataset)
        self._pace = pace
        self._allow_nones = allow_nones
        self._next = 0
        self._ahead: deque[RowAhead] = deque()
        self._threads: RowThreads | None = None
        self._meter = Meter()

    def __next__(self) -> Any:
        self._assert_not_closed()
        while self._next < self._num_rows:
            row = self._row()
            self._next += 1
            if row is not None or self._allow_nones:
                return row
        raise StopIteration

    def _row(self) -> Any:
        """The next row. If it has an error it stays the next one."""
        begin = perf_counter()
        self._ask_ahead()
        if not self._ahead:
            computed = thread_time()
            row = self._dataset[self._next]
            end = perf_counter()
            self._measured(begin, end, reading=end - begin, computing=thread_time() - computed)
            return row
        ahead = self._ahead.popleft()
        try:
            row = ahead.given()
        except BaseException:
            self._drop_ahead()
            raise
        if self._pace.num_threads:  # else it is left from when there were threads
            self._measured(begin, perf_counter(), reading=ahead.seconds, computing=ahead.computing)
        return row

    def _ask_ahead(self) -> None:
        if self._threads is not None and not self._threads.are_here:  # they stayed behind where this one was forked
            self._threads = None
            self._ahead.clear()
        number = self._pace.num_threads
        if self._threads is None:
            if not number:
                return
            self._threads = RowThreads(self._dataset)
        if len(self._threads) != number:
            self._threads.resize(number)
        if not number:
            return
        last = min(self._num_rows, self._next + 1 + self._pace.num_ahead)
        for index in range(self._next + len(self._ahead), last):
            self._ahead.append(self._threads.ask(index))

    def _measured(self, begin: float, end: float, *, reading: float, computing: float) -> None:
        meter, pace = self._meter, self._pace
        meter.add(begin, end, reading=reading, computing=computing)
        if not pace.is_full(meter.num_rows, end - meter.begin):
            return
        had_settled = pace.settled is not None
        pace.tell(meter.window(pace.num_threads, end))
        self._meter = Meter()
        if not had_settled and pace.settled is not None:
            _say_once(self._dataset, pace.settled)

    def get_state(self) -> dict[str, Any]:
        """Which row is next."""
        return {"next_index": self._next}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on there.

        Raises:
            IndexError: there is no such row.
        """
        index = state["next_index"]
        if not 0 <= index <= self._num_rows:
            raise IndexError(f"The state says that row {index} is next, and there are {self._num_rows:,}.")
        self._drop_ahead()
        self._next = index

    def _drop_ahead(self) -> None:
        while self._ahead:
            self._ahead.popleft().drop()

    def start_prefetch(self) -> None:
        """Has threads begin, where their number is given."""
        self._ask_ahead()

    def close(self) -> None:
        """Ends threads, and waits for the rows that they are reading."""
        super().close()
        self._drop_ahead()
        if self._threads is not None:
            self._threads.close()

    def __str__(self) -> str:
        return f"RowsIterator({self._dataset})"


def _can_be_read_ahead(dataset: Any) -> bool:
    """Whether all sources of a data set, and what makes rows of theirs, say that several threads may ask them."""
    said: bool | None = getattr(dataset, "can_be_read_ahead", None)
    if said is not None:
        return said
    parents = getattr(dataset, "parents", ())
    return bool(parents) and all(map(_can_be_read_ahead, parents))


def _is_read_in_order_alone(dataset: Any) -> bool:
    """Whether a data set, or one that it is made of, makes rows of those before.

    Threads would wait for each other, and what one makes on the way to its row would count with another's.
    """
    return getattr(dataset, "ends_early", False) or any(
        _is_read_in_order_alone(parent) for parent in getattr(dataset, "parents", ())
    )


_SAID: set[str] = set()
"""Of which rows it was said: of those of all parts, and in all passes, once."""


def _say_once(dataset: grain.MapDataset[Any], window: Window) -> None:
    names = ", ".join(node.name for node in graph_ledger(dataset).nodes) or str(dataset)
    if names in _SAID:
        return
    _SAID.add(names)
    if window.num_threads:
        say(
            f"Rows of {names} wait; {window.num_threads} threads read ahead, and what asks for rows still waits for "
            f"{window.stall_share:.0%} of the time."
        )
    else:
        say(
            f"Rows of {names} wait, and are read one by one. Where several threads may read the source and call the "
            "processor at once, say can_be_read_ahead = True in their classes, and threads read ahead; or give "
            "read_options."
        )
