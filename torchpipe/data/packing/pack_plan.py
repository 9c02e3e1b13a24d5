"""Which spans of samples share a pack."""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from torchpipe.data.packing.coverage import first_fault
from torchpipe.data.packing.ramps import ramps
from torchpipe.errors import ConfigError, DataError

PlanLeftOut = Literal["empty", "too_long", "over_cap"]
"""Why a sample is in no pack: it has no tokens; it is longer than every pack; alone, it needs more of a capped quantity
than a pack may have. A group's members are left out together."""

_CHUNK = 1 << 22


class Span(NamedTuple):
    """Tokens ``start:stop`` of one sample."""

    sample: int
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True, eq=False)
class PackPlan:
    """Which spans share a pack. Pack k is spans ``pack_offsets[k]:pack_offsets[k + 1]``; it is never empty.

    The arrays are read-only. One that holds a single value over and over may be that value, broadcast.

    Attributes:
        sample, start, stop: int64 [spans]; stop is exclusive.
        pack_offsets: int64 [packs + 1].
        pack_lens: int64 [packs], tokens that each pack's row has, padding included.
        num_samples: samples that were planned, those left out included.
        num_truncated: tokens cut off by ``overflow="truncate"``.
        left_out: int64 sample numbers, ascending, under each reason that left any out.
    """

    sample: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    pack_offsets: np.ndarray
    pack_lens: np.ndarray
    num_samples: int
    num_truncated: int = 0
    left_out: Mapping[PlanLeftOut, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("sample", "start", "stop", "pack_offsets", "pack_lens"):
            object.__setattr__(self, name, _read_only(getattr(self, name)))
        left_out = {reason: _read_only(samples) for reason, samples in self.left_out.items()}
        object.__setattr__(self, "left_out", left_out)

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled: as its folder, if it was loaded from one, so that a worker maps the same files."""
        if "folder" in vars(self):
            return PackPlan.load, (vars(self)["folder"],)
        return _restored, ({each.name: _compact(getattr(self, each.name)) for each in fields(self)},)

    def __len__(self) -> int:
        return len(self.pack_offsets) - 1

    def spans(self, pack: int) -> list[Span]:
        """The spans of one pack, in order."""
        rows = slice(int(self.pack_offsets[pack]), int(self.pack_offsets[pack + 1]))
        columns = (self.sample[rows].tolist(), self.start[rows].tolist(), self.stop[rows].tolist())
        return [Span(*row) for row in zip(*columns, strict=True)]

    @cached_property
    def num_tokens(self) -> np.ndarray:
        """Tokens that each pack holds, without padding: int64 [packs]."""
        return _read_only(self._sums(lambda spans: self.stop[spans] - self.start[spans]))

    @property
    def fill(self) -> float:
        """The part of all packs' rows that holds tokens; 0.0 where there are no packs."""
        room = int(self.pack_lens.sum())
        return int(self.num_tokens.sum()) / room if room else 0.0

    def describe(self) -> str:
        """One line: packs, how full they are, documents in each."""
        return describe_packs(
            num_packs=len(self),
            num_documents=len(self.sample),
            num_tokens=int(self.num_tokens.sum()),
            capacity=int(self.pack_lens.sum()),
        )

    @property
    def counts(self) -> dict[str, int]:
        """What became of everything: samples, those under each reason, cut tokens, spans, packs, tokens."""
        left_out = {f"{reason}_samples": len(samples) for reason, samples in self.left_out.items()}
        return {
            "samples": self.num_samples,
            "packed_samples": self.num_samples - sum(left_out.values()),
            **left_out,
            "truncated_tokens": self.num_truncated,
            "spans": len(self.sample),
            "packs": len(self),
            "tokens": int(self.num_tokens.sum()),
        }

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that two plans share only if every pack holds the same spans in the same order.

        Plans that were read from files take it from there.
        """
        digest = hashlib.blake2b(b"torchpipe plan 1", digest_size=16)
        for values in (self.sample, self.start, self.stop, self.pack_offsets, self.pack_lens):
            digest.update(len(values).to_bytes(8, "little"))
            for begin in range(0, len(values), _CHUNK):
                digest.update(np.ascontiguousarray(values[begin : begin + _CHUNK], dtype="<i8").tobytes())
        return digest.hexdigest()

    def costs(
        self,
        cost: Callable[..., np.ndarray],
        *,
        media: np.ndarray | None = None,
        padding: bool = True,
    ) -> np.ndarray:
        """What each pack costs: int64 [packs], the sum over its documents.

        Args:
            cost: gives the integer costs of documents by their tokens (int64 [documents]) and, where ``media`` is
                given, by their media as the second argument; a :class:`~torchpipe.data.packing.cost.CostModel`, or any
                function.
            media: units of media of each sample, integers [samples]. Every span of a sample counts them.
            padding: whether padding counts, which is one more document of the row.

        Raises:
            ConfigError: ``cost`` gives anything but whole numbers.
        """

        def of(lengths: np.ndarray, *media: np.ndarray) -> np.ndarray:
            costs = np.asarray(cost(lengths, *media))
            if costs.dtype.kind not in "iu" or costs.shape != lengths.shape:
                raise ConfigError(
                    f"cost gave {costs.dtype} {list(costs.shape)} for {len(lengths)} documents. It has to give one "
                    "whole number for each: ranks that round differently would plan differently."
                )
            return costs

        def of_spans(spans: slice) -> np.ndarray:
            given = () if media is None else (np.asarray(media)[self.sample[spans]],)
            return of(self.stop[spans] - self.start[spans], *given)

        costs = self._sums(of_spans)
        if padding:
            padded = np.flatnonzero(self.pack_lens > self.num_tokens)
            costs[padded] += of(self.pack_lens[padded] - self.num_tokens[padded])
        return costs

    def take(self, packs: Sequence[int] | np.ndarray) -> "PackPlan":
        """The plan of some packs, in the order given; each at most once.

        Samples that only other packs hold are then in none; ``num_samples`` and ``left_out`` stay as they are.
        """
        packs = np.asarray(packs, dtype=np.int64)
        begins = self.pack_offsets[:-1][packs]
        counts = self.pack_offsets[1:][packs] - begins
        spans = ramps(begins, counts)
        return replace(
            self,
            sample=self.sample[spans],
            start=self.start[spans],
            stop=self.stop[spans],
            pack_offsets=np.concatenate([[0], np.cumsum(counts)]),
            pack_lens=self.pack_lens[packs],
        )

    def check(self, lengths: Sequence[int] | np.ndarray) -> None:
        """Nothing, if this is a plan of samples of these lengths: each token is in one pack, or its sample left out.

        Args:
            lengths: tokens of each sample.

        Raises:
            DataError: it is not; the sentence names the first sample or pack that is wrong.
        """
        lengths = np.asarray(lengths)
        if len(lengths) != self.num_samples:
            raise DataError(f"The plan is of {self.num_samples} samples, and there are {len(lengths)}.")
        expected = lengths.astype(np.int64)
        if self.num_truncated:
            expected = np.minimum(expected, self.pack_lens.max(initial=0))
        for samples in self.left_out.values():
            expected[samples] = 0
        fault = first_fault(self.sample, self.start, self.stop, self.pack_offsets, expected)
        if fault is None and (self.num_tokens > self.pack_lens).any():
            pack = int(np.argmax(self.num_tokens > self.pack_lens))
            fault = f"pack {pack} holds {self.num_tokens[pack]} tokens in a row of {self.pack_lens[pack]}"
        if fault is not None:
            raise DataError(f"The plan does not fit these samples: {fault}. Plan again from these lengths.")

    def save(self, folder: str | Path) -> None:
        """Writes the plan into a new folder; see :func:`torchpipe.data.packing.plan_files.save_plan`."""
        from torchpipe.data.packing.plan_files import save_plan

        save_plan(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> "PackPlan":
        """The plan of a folder, its arrays memory-mapped; see :func:`torchpipe.data.packing.plan_files.load_plan`."""
        from torchpipe.data.packing.plan_files import load_plan

        return load_plan(Path(folder))

    @classmethod
    def from_packs(cls, packs: Iterable[Sequence[Span]], *, capacity: int | None = None) -> "PackPlan":
        """The plan that holds ``packs``, in order.

        Args:
            packs: the spans of each pack.
            capacity: tokens of a pack's row; None gives each pack a row of its own tokens, without padding.
        """
        sample, start, stop, offsets = columns_of(packs)
        ends = np.concatenate([[0], np.cumsum(stop - start)])
        num_tokens = ends[offsets[1:]] - ends[offsets[:-1]]
        return cls(
            sample=sample,
            start=start,
            stop=stop,
            pack_offsets=offsets,
            pack_lens=num_tokens if capacity is None else np.broadcast_to(np.int64(capacity), len(offsets) - 1),
            num_samples=int(sample.max(initial=-1)) + 1,
        )

    def _sums(self, of: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Sums over each pack of what ``of`` gives for a range of spans: int64 [packs], some packs at a time."""
        sums = np.empty(len(self), dtype=np.int64)
        first = 0
        while first < len(self):
            limit = self.pack_offsets[first] + _CHUNK
            stop = max(first + 1, int(np.searchsorted(self.pack_offsets, limit, side="right")) - 1)
            begin = int(self.pack_offsets[first])
            values = of(slice(begin, int(self.pack_offsets[stop])))
            sums[first:stop] = np.add.reduceat(values, self.pack_offsets[first:stop] - begin)
            first = stop
        return sums


def describe_packs(*, num_packs: int, num_documents: int, num_tokens: int, capacity: int) -> str:
    """One line: packs, how full they are, documents in each.

    Args:
        num_packs, num_documents, num_tokens: of all packs together, without padding.
        capacity: tokens that all packs together have room for.

    >>> describe_packs(num_packs=2, num_documents=9, num_tokens=950, capacity=1000)
    '2 packs, 95.00% full, 4.5 documents a pack'
    """
    packs = max(1, num_packs)
    return (
        f"{num_packs:,} packs, {num_tokens / max(1, capacity):.2%} full, {num_documents / packs:.1f} documents a pack"
    )


def columns_of(packs: Iterable[Sequence[Sequence[int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``sample, start, stop`` of all spans and the packs' offsets among them, as int64 arrays."""
    flat, offsets = array("q"), array("q", [0])  # 8 bytes a number while packs arrive
    for pack in packs:
        for span in pack:
            flat.extend(span)
        offsets.append(len(flat) // 3)
    sample, start, stop = np.ascontiguousarray(np.array(flat, dtype=np.int64).reshape(-1, 3).T)
    return sample, start, stop, np.array(offsets, dtype=np.int64)


def _compact(value: Any) -> Any:
    """The value; an array that is one number, broadcast, as that number and the array's length."""
    is_one = isinstance(value, np.ndarray) and value.size and value.strides == (0,)
    return _Broadcast(int(value[0]), len(value)) if is_one else value


class _Broadcast(NamedTuple):
    value: int
    length: int


def _restored(values: dict[str, Any]) -> PackPlan:
    broadcast = {
        n: np.broadcast_to(np.int64(v.value), v.length) for n, v in values.items() if isinstance(v, _Broadcast)
    }
    return PackPlan(**{**values, **broadcast})


def _read_only(values: np.ndarray) -> np.ndarray:
    """A view of the int64 array that can't be written through."""
    view = np.asarray(values, dtype=np.int64).view()
    view.flags.writeable = False
    return view
