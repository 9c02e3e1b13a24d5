"""JSONL files as a source, as their user writes it."""

import gzip
import json
import os
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from torchpipe.config import instantiate
from torchpipe.datasets import instruct_dataset
from torchpipe.errors import ConfigError, MalformedRow, SourceError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.pipeline import DatasetIterationPolicy, IndexedJsonlSource, RandomAccessDataSource
from torchpipe.sources.identity import object_fingerprint
from torchpipe.sources.json_rows import JsonRows
from torchpipe.sources.source_file import SourceFile

POLICY = DatasetIterationPolicy(
    seed=0, shuffle=False, repeat=False, dp_rank=0, dp_world_size=1, streaming_shuffle_buffer_size=100
)


def source_of(*patterns: object) -> IndexedJsonlSource:
    config = IndexedJsonlSource.Config(patterns=tuple(map(str, patterns)))
    return config.build(dataset_iteration_policy=POLICY)


def written(path: Path, *numbers: int) -> Path:
    path.write_text("".join(f'{{"n": {number}}}\n' for number in numbers), encoding="utf-8")
    return path


def test_indexed_jsonl_random_access(shared_data: Path) -> None:
    file = shared_data / "gsm8k" / "train.jsonl"
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
    source = source_of(file)
    assert isinstance(source, RandomAccessDataSource)
    assert [source[index] for index in range(len(source))] == rows
    assert (source[-1], source[-len(rows)]) == (rows[-1], rows[0])
    for index in (len(rows), -len(rows) - 1):
        with pytest.raises(IndexError, match=rf"Row {index} was asked for, and there are {len(rows)} rows"):
            source[index]


def test_real_pre_training_text_is_read_as_it_is_written(shared_data: Path) -> None:
    file = shared_data / "llamafactory" / "c4_demo.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    source = source_of(file)
    assert [source[index] for index in range(len(source))] == lines


def test_files_of_a_pattern_are_sorted_and_patterns_stay_in_their_order(tmp_path: Path) -> None:
    written(tmp_path / "b-2.jsonl", 4)
    written(tmp_path / "b-1.jsonl", 2, 3)
    written(tmp_path / "a.jsonl", 5)
    source = source_of(tmp_path / "b-*.jsonl", tmp_path / "a.jsonl")
    assert [source[index]["n"] for index in range(len(source))] == [2, 3, 4, 5]


def test_a_file_is_opened_once_for_all_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(written(tmp_path / "a.jsonl", *range(50)), written(tmp_path / "b.jsonl", *range(50)))
    opened: list[object] = []
    os_open = os.open
    monkeypatch.setattr(os, "open", lambda path, *how: (opened.append(path), os_open(path, *how))[1])
    assert [source[index * 37 % 100]["n"] for index in range(100)] == [index * 37 % 100 % 50 for index in range(100)]
    assert len(opened) <= 2


def test_blank_lines_are_no_rows_and_a_last_line_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf\n \t\n{"n": 1}\r\n\r\n   \n\n  {"n": 2}  \n{"n": 3}')
    source = source_of(tmp_path / "a.jsonl")
    assert [source[index]["n"] for index in range(len(source))] == [1, 2, 3]


def test_a_pattern_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^pattern matched no files: .*none-\*\.jsonl \(looked from"):
        source_of(tmp_path / "none-*.jsonl")
    with pytest.raises(ConfigError, match=r"patterns is \(\)\. Give paths or patterns in a tuple"):
        IndexedJsonlSource.Config(patterns=())
    wrong: list[Any] = ["a.jsonl", b"a.jsonl", Path("a.jsonl"), {"a.jsonl"}, {"a.jsonl": 1}, 5, None, [None], ["a", 5]]
    for patterns in wrong:
        with pytest.raises(ConfigError, match=rf"patterns is {re.escape(repr(patterns))}\. Give paths"):
            IndexedJsonlSource.Config(patterns=patterns)


def test_a_file_that_two_patterns_give_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", 1)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match=r"^patterns resolve to the same file more than once: .*a\.jsonl"):
        source_of(tmp_path / "*.jsonl")


def test_a_malformed_line_is_named_and_the_rows_around_it_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n\n{"n": }\n{"n": 3}\n')
    source = source_of(tmp_path / "a.jsonl")
    assert (source[0]["n"], source[2]["n"]) == (1, 3)
    with pytest.raises(MalformedRow, match=r"a\.jsonl, line 3 is not valid JSON: .* \(byte 16 of the file\)") as raised:
        source[1]
    assert (raised.value.line, raised.value.offset) == (3, 16)


def test_a_malformed_line_can_be_left_out_and_counted(tmp_path: Path) -> None:
    lines = [json.dumps({"input": f"q{number}", "output": "a"}) for number in range(4)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:2], '{"input": ', *lines[2:]]), encoding="utf-8")
    dataset = instruct_dataset(
        tiny_tokenizer(),
        source=source_of(tmp_path / "a.jsonl"),
        cache=True,
        cache_dir=str(tmp_path / "cache"),
        on_error="quarantine",
        quarantine_file=str(tmp_path / "bad.jsonl"),
    )
    assert len(dataset) == 4
    assert [json.loads(line)["row"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()] == [2]


def test_a_file_that_changes_under_the_run_is_one_sentence(tmp_path: Path) -> None:
    source = source_of(written(tmp_path / "a.jsonl", 1, 2, 3))
    written(tmp_path / "a.jsonl", 1, 2)
    with pytest.raises(SourceError, match=r"a\.jsonl has changed since it was opened\. Start the run again"):
        source[0]


def test_a_file_of_other_content_and_the_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    source = source_of(written(tmp_path / "a.jsonl", 1, 2, 3))
    other = written(tmp_path / "other.jsonl", 4, 5, 6)
    shutil.copystat(tmp_path / "a.jsonl", other)
    os.replace(other, tmp_path / "a.jsonl")
    with pytest.raises(SourceError, match=r"a\.jsonl has changed since it was opened"):
        source[0]


def test_a_file_that_is_deleted_under_the_run_is_one_sentence(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", 1, 2, 3)
    opened, unopened = source_of(file), source_of(file)
    assert opened[0]["n"] == 1
    file.unlink()
    for source in (opened, unopened):
        with pytest.raises(FileNotFoundError, match=r"a\.jsonl is not there any more: it was deleted or moved"):
            source[2]


def test_a_file_that_is_replaced_after_rows_of_it_were_read_is_noticed(tmp_path: Path) -> None:
    source = source_of(written(tmp_path / "a.jsonl", 1, 2, 3))
    assert source[0]["n"] == 1
    os.replace(written(tmp_path / "other.jsonl", 4, 5, 6), tmp_path / "a.jsonl")
    with pytest.raises(SourceError, match=r"a\.jsonl has changed since it was opened"):
        source[1]


@pytest.mark.parametrize("change", [lambda file: file.write_text('{"n": 1}\n'), lambda file: _append(file)])
def test_a_file_that_is_cut_or_grows_after_rows_of_it_were_read_is_noticed(change: Any, tmp_path: Path) -> None:
    source = source_of(written(tmp_path / "a.jsonl", 1, 2, 3))
    assert source[0]["n"] == 1
    change(tmp_path / "a.jsonl")
    with pytest.raises(SourceError, match=r"a\.jsonl has changed since it was opened"):
        source[0]


def _append(file: Path) -> None:
    with file.open("a") as opened:
        opened.write('{"n": 9}\n')


def test_the_copy_of_a_compressed_file_may_be_made_anew_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2}\n'))
    rows = JsonRows([SourceFile.of_path(tmp_path / "a.jsonl.gz", str(tmp_path / "cache"))])
    assert rows[0] == {"n": 1}
    shutil.rmtree(tmp_path / "cache")
    assert rows[1] == {"n": 2}


def test_a_source_travels_to_worker_processes(tmp_path: Path) -> None:
    source = source_of(written(tmp_path / "a.jsonl", 1, 2, 3))
    assert source[0]["n"] == 1
    other = pickle.loads(pickle.dumps(source))
    assert [other[index]["n"] for index in range(3)] == [1, 2, 3]


def test_sources_are_told_apart_by_their_files(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", 1, 2, 3)
    first = object_fingerprint(source_of(file))
    assert object_fingerprint(source_of(file)) == first
    written(file, 1, 2, 4)
    assert object_fingerprint(source_of(file)) != first


def test_the_same_source_is_written_in_yaml(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", 1, 2)
    config = instantiate(
        {"_component_": "torchpipe.pipeline.IndexedJsonlSource.Config", "patterns": [str(tmp_path / "*.jsonl")]}
    )
    assert config == IndexedJsonlSource.Config(patterns=(str(tmp_path / "*.jsonl"),))
    assert config.build(dataset_iteration_policy=POLICY)[1] == source_of(file)[1] == {"n": 2}
