"""Where the lines of a file are is found once, shared, and never wrong."""

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from torchpipe.errors import MalformedRow, SourceError
from torchpipe.sources import JsonRows, json_rows, jsonl_index, line_starts
from torchpipe.sources.jsonl_index import line_starts as starts_of
from torchpipe.sources.line_starts import KeptStarts, LineStarts

LINES = st.lists(
    st.one_of(
        st.sampled_from([b"", b" ", b"\r", b" \t\x0b\x0c\r", b"{}", b' {"a": 1}', b"\x00", b"x"]),
        st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")),
    ),
    max_size=160,
)


def expected(content: bytes, start: int = 0) -> list[tuple[int, bytes]]:
    """Each line that is not blank, and where it starts."""
    found: list[tuple[int, bytes]] = []
    for line in content[start:].split(b"\n"):
        if line.strip():
            found.append((start, line))
        start += len(line) + 1
    return found


def lines_of(content: bytes, starts: LineStarts) -> list[tuple[int, bytes]]:
    spans = [starts[row] for row in range(len(starts))]
    return [(start, content[start:stop].split(b"\n")[0]) for start, stop in spans]


def kept(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*.lines") if path.is_file()]


def rows(path: Path, count: int) -> Path:
    path.write_text("".join(f'{{"n": {number}}}\n' for number in range(count)), encoding="utf-8")
    return path


@given(lines=LINES, ends=st.booleans(), begin=st.integers(0, 3), threads=st.sampled_from([1, 3]))
@example(lines=[b"a"] * 120, ends=True, begin=0, threads=3)
@example(lines=[b"\r"] * 120, ends=False, begin=0, threads=1)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_line_that_is_not_blank_is_found_whatever_the_blocks_cut(
    tmp_path: Path, lines: list[bytes], ends: bool, begin: int, threads: int
) -> None:
    content = b"\n".join(lines) + (b"\n" if ends else b"")
    begin = min(begin, len(content))
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl_index, "_BLOCK", 64)
        patch.setattr(jsonl_index, "_PART", 160)
        patch.setattr(jsonl_index, "num_cores", lambda: threads)
        patch.setattr(line_starts, "_CHUNK", 8)
        for keep in (False, True):
            found = starts_of(
                tmp_path / "a.jsonl", begin, name="a", cache_dir=str(tmp_path / f"cache {begin}"), keep=keep
            )
            assert lines_of(content, found) == expected(content, begin)


def test_lines_longer_than_a_block_are_found(tmp_path: Path) -> None:
    content = b'{"a": "' + b"x" * 3_000_000 + b'"}\n' + b" " * 2_000_000 + b"\n" + b'{"b": 1}\n' * 1000
    (tmp_path / "a.jsonl").write_bytes(content)
    assert lines_of(content, starts_of(tmp_path / "a.jsonl", name="a", keep=False)) == expected(content)


def test_an_index_lies_in_the_cache_and_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file, cache = rows(tmp_path / "data" / "a.jsonl", 1000), tmp_path / "cache"
    first = starts_of(file, name="a", cache_dir=str(cache))
    (path,) = kept(cache)
    stamp = path.stat().st_mtime_ns, path.stat().st_ino
    again = starts_of(file, name="a", cache_dir=str(cache))
    assert isinstance(first, KeptStarts)
    assert isinstance(again, KeptStarts)
    assert [again[row] for row in (0, 999)] == [first[row] for row in (0, 999)]
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == stamp
    assert list((tmp_path / "data").iterdir()) == [file]


@pytest.mark.parametrize("content", [b'{"n": 12}\n{"n": 3}\n', b'{"n": 1}\n{"n": 3}\n', b'{"n": 1}\n' * 5, b""])
def test_another_file_at_the_path_is_looked_through_anew(tmp_path: Path, content: bytes) -> None:
    file, cache = tmp_path / "a.jsonl", str(tmp_path / "cache")
    file.write_bytes(b'{"n": 1}\n{"n": 23}\n')
    starts_of(file, name="a", cache_dir=cache)
    stat = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert lines_of(content, starts_of(file, name="a", cache_dir=cache)) == expected(content)
    assert len(kept(tmp_path / "cache")) == 1  # the old one is not left behind


@pytest.mark.parametrize("damage", ["cut", "empty", "first byte", "description"])
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: str) -> None:
    file, cache = rows(tmp_path / "a.jsonl", 100), tmp_path / "cache"
    starts_of(file, name="a", cache_dir=str(cache))
    (path,) = kept(cache)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[:-1]
    elif damage == "empty":
        content = content[:0]
    else:
        content[0 if damage == "first byte" else -20] ^= 1
    path.write_bytes(content)
    assert lines_of(file.read_bytes(), starts_of(file, name="a", cache_dir=str(cache))) == expected(file.read_bytes())


def test_damage_within_an_index_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_starts, "_CHUNK", 8)
    file, cache = rows(tmp_path / "a.jsonl", 100), tmp_path / "cache"
    starts_of(file, name="a", cache_dir=str(cache))
    (path,) = kept(cache)
    content = bytearray(path.read_bytes())
    content[50 * 8] ^= 1
    path.write_bytes(content)
    starts = starts_of(file, name="a.jsonl", cache_dir=str(cache))
    assert starts[3] == (27, 36)
    with pytest.raises(SourceError, match=rf"The index of a\.jsonl, {path}, is damaged\. Delete it"):
        starts[50]


def test_an_index_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    file, cache = rows(tmp_path / "a.jsonl", 100), tmp_path / "cache"
    starts = [starts_of(file, name="a.jsonl", cache_dir=str(cache), mapped=mapped) for mapped in (True, False)]
    (path,) = kept(cache)
    path.unlink()
    for each in starts:
        with pytest.raises(SourceError, match=r"The index of a\.jsonl, .*, is gone, or was made anew\. Delete it"):
            each[0]


def test_a_file_that_is_written_while_it_is_looked_through_is_refused(tmp_path: Path) -> None:
    file = rows(tmp_path / "a.jsonl", 100)
    parts = jsonl_index._starts(file, 0, "a.jsonl")
    next(parts)
    with file.open("ab") as out:
        out.write(b"{}\n")
    with pytest.raises(SourceError, match=r"a\.jsonl was changed while its rows were looked for\. Start again once"):
        list(parts)


def _first_of(queue: "multiprocessing.Queue[tuple[int, int]]", file: Path, cache: str) -> None:
    starts = starts_of(file, name="a", cache_dir=cache)
    queue.put((len(starts), os.stat(starts._path).st_ino))  # pyright: ignore[reportAttributeAccessIssue]


def test_processes_that_start_together_share_one_index(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[tuple[int, int]] = context.Queue()
    file, cache = rows(tmp_path / "a.jsonl", 200_000), str(tmp_path / "cache")
    processes = [context.Process(target=_first_of, args=(queue, file, cache)) for _ in range(4)]
    for process in processes:
        process.start()
    found = {queue.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
    assert len(found) == 1
    assert next(iter(found))[0] == 200_000


def test_a_cache_that_can_not_be_written_is_said_once_and_memory_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_rows, "_KEPT_FROM", 0)
    monkeypatch.setenv("TORCHPIPE_CACHE", str(rows(tmp_path / "no folder", 1)))
    file = rows(tmp_path / "a.jsonl", 5)
    with pytest.warns(UserWarning, match=r"The index of .*a\.jsonl can't be written into .*Not a directory") as warned:
        found = JsonRows([file]), JsonRows([file])
    assert len(warned) == 1
    assert [row["n"] for row in found[1]] == [0, 1, 2, 3, 4]


def test_small_files_leave_nothing_in_the_cache_and_large_ones_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHPIPE_CACHE", str(tmp_path / "cache"))
    file = rows(tmp_path / "a.jsonl", 1000)
    assert JsonRows([file])[999] == {"n": 999}
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr(json_rows, "_KEPT_FROM", file.stat().st_size)
    assert JsonRows([file])[999] == {"n": 999}
    assert len(kept(tmp_path / "cache")) == 1


def test_more_files_than_are_mapped_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "_KEPT_FROM", 0)
    monkeypatch.setattr(json_rows, "_MOST_MAPPED", 2)
    files = [rows(tmp_path / f"{number}.jsonl", number + 1) for number in range(4)]
    found = JsonRows(files)
    assert [row["n"] for row in found] == [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]


def test_rows_and_their_index_travel_to_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "_KEPT_FROM", 0)
    file = rows(tmp_path / "a.jsonl", 100_000)
    found = JsonRows([file])
    assert found[99_999] == {"n": 99_999}
    pickled = pickle.dumps(found)
    assert len(pickled) < 2000
    assert pickle.loads(pickled)[50_000] == {"n": 50_000}


def test_malformed_lines_are_named_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "_KEPT_FROM", 0)
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"n": 0}\n\n{"n": }\n{"n": 2}\r\n\n{"n"\r\n{"n": 4}\n[1]')
    found = JsonRows([file])
    for row, line in ((3, 6), (1, 3), (4, None), (1, 3), (5, 8)):
        if line is None:
            assert found[row] == {"n": 4}
            continue
        with pytest.raises(MalformedRow, match=rf"a\.jsonl, line {line} "):
            found[row]


MEMORY = """
import json, sys
from torchpipe.sources import JsonRows

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

JsonRows([__import__("pathlib").Path(sys.argv[1])])[0]
before = anonymous()
rows = JsonRows([__import__("pathlib").Path(sys.argv[2])])
for row in range(0, len(rows), 997):
    rows[row]
print(json.dumps([len(rows), anonymous() - before]))
"""


def test_memory_of_ones_own_does_not_grow_with_the_file(tmp_path: Path) -> None:
    small, large = rows(tmp_path / "small.jsonl", 10), tmp_path / "large.jsonl"
    large.write_bytes(b'{"n": 1}\n' * 3_000_000)
    environment = {**os.environ, "TORCHPIPE_CACHE": str(tmp_path / "cache")}
    starts_of(large, name="large", cache_dir=str(tmp_path / "cache"))
    arguments = [sys.executable, "-c", MEMORY, str(small), str(large)]
    result = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
    count, kilobytes = json.loads(result.stdout)
    assert count == 3_000_000
    assert kilobytes < 4096  # held in memory, the index would take 24 MB


def test_a_line_stops_where_the_next_one_starts() -> None:
    starts = LineStarts(np.array([0, 4, 9]))
    assert (len(starts), starts[0], starts[1]) == (2, (0, 4), (4, 9))
