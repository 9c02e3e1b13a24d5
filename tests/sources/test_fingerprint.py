"""What tells sources apart: files, commits of the Hub, and what objects hold."""

import os
import shutil
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from torchpipe._fingerprint import fingerprint
from torchpipe.errors import NoFingerprint, SourceError
from torchpipe.sources import JsonRows, KeptRows, load_rows, source_fingerprint
from torchpipe.sources.identity import object_fingerprint

ROWS = [{"a": number, "b": "x" * number} for number in range(100)]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"a": {number}}}\n' for number in range(30_000)))
    return path


def of(path: Path, **options: Any) -> dict[str, str]:
    content = options.pop("content", False)
    return source_fingerprint("json", {"data_files": str(path), "split": "train", **options}, content=content)


def test_a_file_is_told_by_path_size_time_inode_and_its_ends(file: Path) -> None:
    usual = of(file)
    assert usual == of(file) == of(file.parent / "." / "rows.jsonl", num_proc=4)
    assert set(usual) == {"source", "options", "reader", "file 0"}
    assert str(file) in usual["file 0"]
    stat = file.stat()
    for place in (10, stat.st_size - 10):
        raw = bytearray(file.read_bytes())
        raw[place] ^= 1
        with file.open("r+b") as opened:  # the same inode, size and, below, time
            opened.write(raw)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        changed = of(file)
        assert changed["file 0"] != usual["file 0"]
        usual = changed
    os.utime(file, ns=(1, 1))
    assert of(file)["file 0"] != usual["file 0"]


def test_content_is_told_by_all_bytes_and_nothing_else(file: Path, tmp_path: Path) -> None:
    usual = of(file, content=True)
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    shutil.copy(file, copy / "other.jsonl")
    os.utime(copy / "other.jsonl", ns=(1, 1))
    assert of(copy / "other.jsonl", content=True) == usual
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    (copy / "other.jsonl").write_bytes(raw)
    assert of(copy / "other.jsonl", content=True) != usual


def test_split_files_and_their_order_count(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "more.jsonl"
    other.write_text('{"a": 1}\n')
    forms: list[Any] = [
        str(file),
        [str(file), str(other)],
        [str(other), str(file)],
        {"train": str(file), "x": str(other)},
    ]
    told = [source_fingerprint("json", {"data_files": form, "split": "train"}) for form in forms]
    told += [source_fingerprint("json", {"data_files": forms[0], "split": "train[:9]"})]
    told += [source_fingerprint("json", {"data_files": str(tmp_path / "*.jsonl"), "split": "train"})]
    assert len({fingerprint(fields) for fields in told[:-1]}) == 5
    assert told[-1] == told[2]  # more.jsonl comes before rows.jsonl


def test_all_files_of_a_folder_count(tmp_path: Path) -> None:
    folder = tmp_path / "held"
    (folder / "inner").mkdir(parents=True)
    for number in range(20):
        (folder / "inner" / f"{number}.csv").write_text(f"a\n{number}\n")
    usual = source_fingerprint(str(folder), {"split": "train"})
    assert usual["files"].startswith("20 files, ")
    (folder / "inner" / "7.csv").write_text("a\n8\n")
    assert source_fingerprint(str(folder), {"split": "train"}) != usual


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"There is no file .*gone\.jsonl"):
        of(tmp_path / "gone.jsonl")


def test_a_repository_is_told_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    given = source_fingerprint("openai/gsm8k", {"split": "train", "name": "main", "revision": COMMIT})
    assert given["revision"] == COMMIT
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        NoFingerprint, match="can't be told which commit of openai/gsm8k is read: HF_HUB_OFFLINE is set"
    ):
        source_fingerprint("openai/gsm8k", {"split": "train"})
    refs = tmp_path / "datasets--openai--gsm8k" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text(COMMIT)
    assert source_fingerprint("openai/gsm8k", {"split": "train", "name": "main"}) == given
    assert source_fingerprint("openai/gsm8k", {"split": "test", "name": "main"}) != given


def test_a_hugging_face_data_set_is_told_by_what_it_holds() -> None:
    rows = datasets.Dataset.from_list(ROWS)
    again = datasets.Dataset.from_list(ROWS)
    again._fingerprint = "something random"
    assert source_fingerprint(rows) == source_fingerprint(again)
    others = [
        datasets.Dataset.from_list([*ROWS[:-1], {"a": 1, "b": "y"}]),
        rows.select([1, 2]),
        rows.select([2, 1]),
        rows.select(range(10)),
        rows.rename_column("a", "c"),
        rows.cast_column("a", datasets.Value("int32")),
        rows.with_format("numpy"),
        rows.map(lambda row: {"a": row["a"] + 1}),
        rows.shuffle(seed=1),
    ]
    told = [source_fingerprint(other)["source"] for other in [rows, *others]]
    assert len(set(told)) == len(told)


def test_objects_are_told_by_what_they_hold_or_refused(file: Path, tmp_path: Path) -> None:
    rows = JsonRows([file])
    copy = tmp_path / "copy.jsonl"
    shutil.copy(file, copy)
    assert object_fingerprint(rows) == object_fingerprint(JsonRows([file])) != object_fingerprint(JsonRows([copy]))
    rows[0]
    assert object_fingerprint(rows) == object_fingerprint(JsonRows([file]))
    kept = [KeptRows(rows, np.array(numbers)) for numbers in ([1, 2], [2, 1], [1, 2, 3])]
    assert len({object_fingerprint(each) for each in kept}) == 3
    joined = [load_rows("json", data_files=str(file), split=split) for split in ("train[:2]+train[4:5]", "train[:3]")]
    assert len({object_fingerprint(each) for each in joined}) == 2
    assert object_fingerprint(ROWS) == object_fingerprint([dict(row) for row in ROWS]) != object_fingerprint(ROWS[1:])
    filtered = KeptRows(datasets.Dataset.from_list(ROWS), np.array([1]))
    assert object_fingerprint(filtered) != object_fingerprint(KeptRows(datasets.Dataset.from_list(ROWS), np.array([2])))

    class Reads:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            return open(file).readline()

    with pytest.raises(NoFingerprint, match=r"Reads\.__getitem__ uses open"):
        source_fingerprint(Reads())
