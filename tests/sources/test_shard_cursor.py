"""What a part of the ranks reads of a stream of files, epoch after epoch."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from torchpipe.errors import CheckpointError, DataError
from torchpipe.sources.shard_cursor import ShardCursor
from torchpipe.sources.streams import RowStream

LARGEST = 6

few = settings(max_examples=40, deadline=None)

Streams = Callable[[Sequence[int]], RowStream]


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Streams:
    """Function (rows of each file) -> a stream of files of text, whose rows are ``<file> <row>``."""
    folder = tmp_path_factory.mktemp("files")

    def made(sizes: Sequence[int]) -> RowStream:
        files = []
        for number, size in enumerate(sizes):
            file = folder / f"{number}-{size}.txt"
            file.write_text("".join(f"{number} {row}\n" for row in range(size)), encoding="utf-8")
            files.append(str(file))
        return RowStream("text", {"split": "train", "data_files": files})

    return made


def cursor(stream: RowStream, part: int = 0, num_parts: int = 1, **options: Any) -> ShardCursor:
    return ShardCursor(stream, part=part, num_parts=num_parts, **{"seed": 3, "repeat": False, **options})


def texts(rows: Any, most: int | None = None) -> list[str]:
    return [row["text"] for row in islice(rows, most)]


def all_of(sizes: Sequence[int]) -> Counter[str]:
    return Counter(f"{number} {row}" for number, size in enumerate(sizes) for row in range(size))


@few
@given(
    sizes=st.lists(st.integers(0, LARGEST), min_size=1, max_size=9),
    num_parts=st.integers(1, 9),
    seed=st.none() | st.integers(0, 99),
    epoch=st.integers(0, 3),
)
def test_parts_read_each_row_of_an_epoch_once(
    streams: Streams, sizes: list[int], num_parts: int, seed: int | None, epoch: int
) -> None:
    stream = streams(sizes)
    parts = [cursor(stream, part, num_parts, seed=seed, epoch=epoch) for part in range(num_parts)]
    assert Counter(text for part in parts for text in texts(part)) == all_of(sizes)


@few
@given(sizes=st.lists(st.integers(0, LARGEST), min_size=1, max_size=6), num_parts=st.integers(1, 6))
def test_a_repeated_stream_gives_each_row_in_each_epoch_and_no_part_starves(
    streams: Streams, sizes: list[int], num_parts: int
) -> None:
    """A part that has no row in an epoch goes on to the next one."""
    assume(sum(sizes) >= num_parts)
    stream = streams(sizes)
    num_epochs = 3
    rows: list[Counter[str]] = [Counter() for _ in range(num_epochs)]
    for part in range(num_parts):
        one = cursor(stream, part, num_parts, repeat=True)
        while True:
            row = next(one)
            if one.epoch >= num_epochs:
                break
            rows[one.epoch][row["text"]] += 1
    assert rows == [all_of(sizes)] * num_epochs


@few
@given(
    sizes=st.lists(st.integers(1, LARGEST), min_size=1, max_size=7),
    num_parts=st.integers(1, 4),
    data=st.data(),
)
def test_a_part_goes_on_from_any_place(streams: Streams, sizes: list[int], num_parts: int, data: st.DataObject) -> None:
    sizes = [max(sizes[0], num_parts), *sizes[1:]]
    stream = streams(sizes)
    part, before = data.draw(st.integers(0, num_parts - 1)), data.draw(st.integers(0, 2 * sum(sizes)))
    one = cursor(stream, part, num_parts, repeat=True)
    texts(one, before)
    epoch, place = one.epoch, json.loads(json.dumps(one.place()))
    other = cursor(stream, part, num_parts, repeat=True)
    other.go_to(epoch, place)
    assert other.place() == place
    assert texts(other, 12) == texts(one, 12)


class Counted(RowStream):
    """A stream that counts the rows that are read of it."""

    num_read = 0

    def shard(self, number: int, state: Any = None) -> Any:
        for row in super().shard(number, state):
            self.num_read += 1
            yield row


def test_parts_read_few_rows_more_than_there_are(tmp_path: Path) -> None:
    """Five files for four parts: each part reads two of them, where it read all five before."""
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("a\n" * 10, encoding="utf-8")
    stream = Counted("text", {"split": "train", "data_files": str(tmp_path / "*.txt")})
    assert sum(len(texts(cursor(stream, part, 4))) for part in range(4)) == 50
    assert stream.num_read == 80


def test_a_part_without_rows_ends_a_finite_pass_quietly(streams: Streams) -> None:
    stream = streams([3])
    assert [len(texts(cursor(stream, part, 4))) for part in range(4)] == [1, 1, 1, 0]


def test_a_stream_without_rows_can_not_be_repeated(streams: Streams) -> None:
    for part in range(3):
        with pytest.raises(DataError, match=r"0-0.txt, .*1-0.txt holds no rows. Check the split and the files"):
            next(cursor(streams([0, 0]), part, 3, repeat=True))


@pytest.mark.parametrize("sizes", [[3], [1, 0, 2]])
def test_fewer_rows_than_parts_can_not_be_repeated(sizes: list[int], streams: Streams) -> None:
    for part in range(4):
        with pytest.raises(DataError, match=r"has 3 rows, fewer than the 4 ranks \(and worker processes\) that share"):
            texts(cursor(streams(sizes), part, 4, repeat=True))


def test_a_part_whose_files_are_empty_in_each_epoch_is_one_sentence(streams: Streams) -> None:
    """Without shuffling the second of two parts has the second file in every epoch."""
    stream = streams([4, 0])
    assert len(texts(cursor(stream, 0, 2, seed=None, repeat=True), 9)) == 9
    with pytest.raises(
        DataError, match=r"Part 1 of 2 of .* has no row: its shards are \[1\] in each epoch.* Shuffle, so"
    ):
        next(cursor(stream, 1, 2, seed=None, repeat=True))
    assert len(texts(cursor(stream, 1, 2, repeat=True), 9)) == 9


def test_a_place_of_an_earlier_release_is_refused(streams: Streams) -> None:
    one = cursor(streams([4, 2]))
    before = {"num_shards": 2, "part": [0, 1], "at": 0, "shard": 0, "num_rows": 0, "state": None}
    with pytest.raises(CheckpointError, match="the state is of another release of torchpipe, which shared shards out"):
        one.go_to(0, before)
