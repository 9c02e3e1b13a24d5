"""What became of the rows of a graph that Grain runs: what each node took, gave and left out, in this process."""

from collections import Counter
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

from torchpipe.errors import DataError
from torchpipe.pipeline.account import account, described_account


class NodeLedger:
    """The counts of one node, from when it was built. Threads may count at the same time.

    A graph that is restored reads again what its open rows hold, and counts it again. What it held before that is left
    out as ``set_back``.

    Args:
        name: of the node.

    Attributes:
        rows_in, rows_out: rows that it took, and gave.
        rows_left_out: rows that it took and gave nothing for, by reason.
        rows_split: rows that became several documents, or several rows.
        tokens_in, tokens_out: tokens of those rows, where it packs; padding is not among them.
        tokens_left_out: tokens that it took and didn't give, by reason.
        first_error: of the rows that it left out for one, the error of the first; "" where there was none.
        padding: tokens that it added. All as in :func:`torchpipe.pipeline.account.account`.

    >>> node = NodeLedger("news")
    >>> node.took(); node.gave(); node.took(); node.left_out("filtered")
    >>> str(node)
    'news: 2 rows in, 1 out; 1 filtered'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows_in = self.rows_out = self.rows_split = self.tokens_in = self.tokens_out = self.padding = 0
        self.first_error = ""
        self.rows_left_out: Counter[str] = Counter()
        self.tokens_left_out: Counter[str] = Counter()
        self._lock = Lock()

    def took(self, *, rows: int = 1, tokens: int = 0) -> None:
        """Counts rows that it took."""
        with self._lock:
            self.rows_in += rows
            self.tokens_in += tokens

    def gave(self, *, rows: int = 1, tokens: int = 0, padding: int = 0) -> None:
        """Counts rows that it gave."""
        with self._lock:
            self.rows_out += rows
            self.tokens_out += tokens
            self.padding += padding

    def left_out(self, reason: str, *, rows: int = 1, tokens: int = 0) -> None:
        """Counts rows, or tokens of them, that it took and did not give."""
        with self._lock:
            if rows:
                self.rows_left_out[reason] += rows
            if tokens:
                self.tokens_left_out[reason] += tokens

    def refused(self, error: DataError) -> None:
        """Counts a row that it took and left out for an error."""
        self.left_out(error.reason)
        with self._lock:
            self.first_error = self.first_error or str(error)

    def split(self) -> None:
        """Counts a row that became several documents or rows."""
        with self._lock:
            self.rows_split += 1

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain values, see :func:`torchpipe.pipeline.account.account`."""
        with self._lock:
            return account(
                rows_in=self.rows_in,
                rows_out=self.rows_out,
                rows_left_out=self.rows_left_out,
                rows_split=self.rows_split,
                tokens_in=self.tokens_in,
                tokens_out=self.tokens_out,
                tokens_left_out=self.tokens_left_out,
                padding=self.padding,
            )

    def __str__(self) -> str:
        return f"{self.name}: {described_account(self.to_dict())}"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = Lock()


class GraphLedger:
    """The counts of all nodes of a graph, from its end to its sources.

    Args:
        nodes: their counts.

    Attributes:
        nodes: their counts.
    """

    def __init__(self, nodes: list[NodeLedger]) -> None:
        self.nodes = nodes

    def __getitem__(self, name: str) -> NodeLedger:
        """The counts of the first node of that name."""
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None:
            raise DataError(f"No node is called {name!r}. There are {[node.name for node in self.nodes]}.")
        return found

    def check(self) -> None:
        """Refuses counts that lose a row or a token, once a pass has ended and nothing is held back any more.

        Raises:
            DataError: a source took rows that it neither gave nor left out; or a packing node so many tokens.
        """
        for node in self.nodes:
            counts = node.to_dict()
            if counts["tokens_in"]:
                what, taken = "tokens", counts["tokens_in"]
                told = counts["tokens_out"] + sum(counts["tokens_left_out"].values())
            else:
                what, taken = "rows", counts["rows_in"]
                told = counts["rows_out"] + sum(counts["rows_left_out"].values())
            if taken != told:
                raise DataError(f"{node.name} took {taken:,} {what}, and {told:,} are accounted for. ({node})")

    @property
    def first_error(self) -> str:
        """The end of a paragraph: the error of the first row that a source left out for one; "" where none was."""
        first = next((node.first_error for node in self.nodes if node.first_error), "")
        return first and f" The first error: {first}"

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The counts as plain values, by node; equal names are numbered."""
        told: dict[str, dict[str, Any]] = {}
        for node in self.nodes:
            number, name = 1, node.name
            while name in told:
                number += 1
                name = f"{node.name} ({number})"
            told[name] = node.to_dict()
        return told

    def __str__(self) -> str:
        return "\n".join(str(node) for node in self.nodes)


def graph_ledger(dataset: Any) -> GraphLedger:
    """The counts of a graph's nodes.

    Args:
        dataset: what a node's ``build`` gave, or a data set of Grain that was made of it.
    """
    found: dict[int, NodeLedger] = {}
    for stage in _stages(dataset):
        ledger = getattr(stage, "ledger", None)
        if isinstance(ledger, NodeLedger):
            found.setdefault(id(ledger), ledger)
    return GraphLedger(list(found.values()))


def summed_ledgers(ledgers: Sequence[GraphLedger]) -> dict[str, dict[str, Any]]:
    """The counts of several parts of one graph together, by node.

    >>> one, other = NodeLedger("news"), NodeLedger("news")
    >>> one.took(); one.gave(); other.took(); other.left_out("filtered")
    >>> summed_ledgers([GraphLedger([one]), GraphLedger([other])])["news"]["rows_left_out"]
    {'filtered': 1}
    """
    whole: dict[str, dict[str, Any]] = {}
    for ledger in ledgers:
        for name, counts in ledger.to_dict().items():
            before = whole.setdefault(name, dict.fromkeys(counts, 0))
            for what, count in counts.items():
                if isinstance(count, dict):
                    before[what] = dict(Counter(before[what] or {}) + Counter(count))
                else:
                    before[what] += count
    return whole


def _stages(dataset: Any) -> Iterator[Any]:
    yield dataset
    for parent in getattr(dataset, "parents", ()):
        yield from _stages(parent)
