"""Compressed files are read as what they hold, from a copy that is made once, whole, and never stale."""

import bz2
import gzip
import lzma
import multiprocessing
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from torchpipe.errors import SourceError
from torchpipe.sources import load_rows, source_fingerprint

ROWS = "".join(f'{{"n": {number}, "t": "é\\r\\n"}}\n' for number in range(2000)).encode()


def zstd(content: bytes) -> bytes:
    out = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(out, "zstd") as file:
        file.write(content)
    return out.getvalue().to_pybytes()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}


def numbers(file: Any, source: str = "json", **options: Any) -> list[int]:
    rows = load_rows(source, data_files=str(file), split="train", **options)
    return [rows[index]["n"] for index in range(len(rows))]


def copies(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file() and path.name != ".lock")


@pytest.mark.parametrize("kind", PACK)
def test_each_kind_is_inflated_into_one_copy(tmp_path: Path, kind: str) -> None:
    file, cache = tmp_path / f"rows.jsonl.{kind}", tmp_path / "cache"
    half = ROWS.index(b"\n", len(ROWS) // 2) + 1
    file.write_bytes(PACK[kind](ROWS[:half]) + PACK[kind](ROWS[half:]))  # as `cat a.gz b.gz` makes it
    for _ in range(2):
        assert numbers(file, cache_dir=str(cache)) == list(range(2000))
    (copy,) = copies(cache)
    assert copy.name == f"{len(ROWS)}-rows.jsonl"
    assert copy.read_bytes() == ROWS


@pytest.mark.parametrize("kind", PACK)
def test_a_file_that_is_cut_short_is_refused_and_nothing_of_it_is_kept(tmp_path: Path, kind: str) -> None:
    file, cache = tmp_path / f"rows.jsonl.{kind}", tmp_path / "cache"
    file.write_bytes(PACK[kind](ROWS)[:-12])
    with pytest.raises(SourceError, match=rf"rows\.jsonl\.{kind} is (cut short|damaged .*): it can't be inflated as a"):
        numbers(file, cache_dir=str(cache))
    assert copies(cache) == []
    file.write_bytes(PACK[kind](ROWS))
    assert numbers(file, cache_dir=str(cache)) == list(range(2000))


def test_damage_in_the_middle_is_found_by_the_checksum(tmp_path: Path) -> None:
    raw = bytearray(gzip.compress(ROWS, compresslevel=0))
    raw[len(raw) // 2] ^= 1
    (tmp_path / "rows.jsonl.gz").write_bytes(raw)
    with pytest.raises(SourceError, match=r"rows\.jsonl\.gz is damaged \(CRC check failed"):
        numbers(tmp_path / "rows.jsonl.gz")


def test_a_changed_file_is_inflated_anew_even_if_its_time_is_not(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl.gz"
    read, told = [], []
    for text in (b'{"n": 1}\n', b'{"n": 2}\n'):
        file.write_bytes(gzip.compress(text, mtime=0))
        os.utime(file, ns=(10**18, 10**18))
        read.append(numbers(file))
        told.append(source_fingerprint("json", {"data_files": str(file), "split": "train"}))
    assert read == [[1], [2]]
    assert told[0] != told[1]
    assert str(file) in told[0]["file 0"]


def test_a_copy_of_another_size_is_made_anew(tmp_path: Path) -> None:
    file, cache = tmp_path / "rows.jsonl.gz", tmp_path / "cache"
    file.write_bytes(gzip.compress(ROWS))
    numbers(file, cache_dir=str(cache))
    (copy,) = copies(cache)
    copy.write_bytes(ROWS[:100])
    assert numbers(file, cache_dir=str(cache)) == list(range(2000))


def _in_a_process(file: str, cache: str, answers: Any) -> None:
    answers.put(sum(numbers(file, cache_dir=cache)))


def test_processes_that_begin_together_make_one_copy(tmp_path: Path) -> None:
    file, cache = tmp_path / "rows.jsonl.xz", tmp_path / "cache"
    file.write_bytes(lzma.compress(ROWS))
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    processes = [context.Process(target=_in_a_process, args=(str(file), str(cache), answers)) for _ in range(4)]
    for process in processes:
        process.start()
    assert [answers.get(timeout=60) for _ in processes] == [sum(range(2000))] * 4
    for process in processes:
        process.join()
    assert len(copies(cache)) == 1


def test_the_content_says_whether_a_file_is_compressed(tmp_path: Path) -> None:
    (tmp_path / "no_ending.jsonl").write_bytes(gzip.compress(b'{"n": 5}\n'))
    assert numbers(tmp_path / "no_ending.jsonl") == [5]
    (tmp_path / "plain.jsonl.gz").write_bytes(b'{"n": 5}\n')
    with pytest.raises(SourceError, match=r"plain\.jsonl\.gz is no gzip file, as its name says: .* is plain\. Rename"):
        numbers(tmp_path / "plain.jsonl.gz")
    (tmp_path / "BZh.txt").write_text("BZh1 is how a text may begin")
    rows = load_rows("text", data_files=str(tmp_path / "BZh.txt"), split="train")
    assert rows[0] == {"text": "BZh1 is how a text may begin"}


def test_a_zip_file_of_one_file_is_read_and_of_several_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("data/rows.jsonl", ROWS)
        archive.writestr("__MACOSX/data/._rows.jsonl", b"...")
    assert numbers(tmp_path / "one.zip") == list(range(2000))
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.jsonl", ROWS)
        archive.writestr("b.jsonl", ROWS)
    with pytest.raises(SourceError, match=r"two\.zip holds 2 files \('a\.jsonl', 'b\.jsonl'\), .* Unpack it"):
        numbers(tmp_path / "two.zip")


def test_compressed_csv_and_text_files_are_read_as_plain_ones(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'n\n"1\r\n2"\n'))
    assert numbers(tmp_path / "a.csv.gz", "csv") == ["1\r\n2"]
    (tmp_path / "a.txt.bz2").write_bytes(bz2.compress(b"one\r\ntwo"))
    rows = load_rows(str(tmp_path / "a.txt.bz2"), split="train", sample_by="document")
    assert rows[0] == {"text": "one\r\ntwo"}


def test_a_malformed_line_is_named_by_the_name_the_user_gave(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n{"n": \n'))
    rows = load_rows(str(tmp_path / "a.jsonl.gz"), split="train")
    with pytest.raises(SourceError, match=rf"{tmp_path}/a\.jsonl\.gz, line 2 is not valid JSON"):
        rows[1]


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    import resource

    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(ROWS * 200))
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, usual[1]))
    try:
        with pytest.raises(SourceError, match=r"a\.jsonl\.gz can't be inflated into .*cache.* may not grow that large"):
            numbers(file, cache_dir=str(tmp_path / "cache"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert copies(tmp_path / "cache") == []
