"""Local JSON files come back exactly as they are written, whatever stands in other rows or files."""

import json
import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import ConfigError, MalformedRow, SourceError
from torchpipe.sources import JoinedRows, JsonRows, KeptRows, check_rows, load_rows

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ROWS = st.lists(st.dictionaries(TEXT, JSON, max_size=4), min_size=1, max_size=8)


def read(*paths: Path) -> list[Any]:
    rows = JsonRows(paths)
    return [rows[index] for index in range(len(rows))]


@given(ROWS, st.booleans(), st.sampled_from([None, 1]))
def test_any_rows_come_back_from_a_list_and_from_lines(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], ascii_only: bool, indent: int | None
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "a.json").write_text(json.dumps(rows, ensure_ascii=ascii_only, indent=indent), encoding="utf-8")
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]
    (folder / "b.jsonl").write_bytes("\r\n".join(lines).encode())
    assert read(folder / "a.json") == rows
    assert read(folder / "b.jsonl") == rows
    assert read(folder / "a.json", folder / "b.jsonl") == rows + rows


@pytest.mark.parametrize(
    "text", ["2024-01-01", "2024-01-01T10:00Z", "007", "1.10", "1e3", "true", "a\r\nb\rc\n", "\x00"]
)
def test_a_text_is_not_retyped_by_the_rows_before_it(tmp_path: Path, text: str) -> None:
    """One type for a whole column, guessed a block at a time, rewrites dates that come late."""
    file = tmp_path / "rows.jsonl"
    rows = [{"a": "hello"}] * 3 + [{"a": text}] * 3 + [{"a": 2.5}, {"b": None}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(file) == rows


def test_one_object_over_many_lines_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('\ufeff{\n "a": 1\n}\n', encoding="utf-8")
    assert read(tmp_path / "one.json") == [{"a": 1}]


def test_a_byte_order_mark_and_blank_lines_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n  \n{"a": 2}')
    assert read(tmp_path / "rows.jsonl") == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.json", b" [ ] ", "holds no rows"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', r"line 2 is not valid JSON: Expecting value at column 7"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', "line 2 holds a list, and a row is an object"),
        ("a.json", b'[\n{"a": 1},\n{"a": 1}\n{"a": 2}]', "line 4 is not valid JSON: a ',' or the ']'"),
        ("a.json", b'[\n{"a": 1},\n{"a": nope}]', "line 3 is not valid JSON: Expecting value"),
        ("a.json", b'[\n{"a": 1},\n3]', "line 3 holds a int"),
        ("a.json", b'[{"a": 1}]\n\nmore', "line 3 is not valid JSON: there is more after the list's end"),
        ("a.json", b'{"a": 1,\n "b": }', "line 2 is not valid JSON"),
        ("a.json", b'[{"a": 1},\n{"a": 1, "a": 2}]', "line 2 is not valid JSON: the key 'a' stands twice"),
        ("a.jsonl", b'{"a": "x"}\n{"a": "caf\xe9"}\n', "line 2 is not UTF-8"),
        ("a.json", b'[{"a": "x"},\n{"a": "caf\xe9"}]\n', "line 2 is not UTF-8"),
        ("a.jsonl", b'{"a": "\\ud83d b"}\n', "line 1 holds a lone surrogate"),
        ("a.json", b'[{"a": 1},\n {"a": "\\udc00"}]', "line 2 holds a lone surrogate"),
    ],
)
def test_what_is_no_row_is_named_with_its_line(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=rf"{name}.*{sentence}"):
        check_rows(JsonRows([tmp_path / name]))


def test_a_malformed_line_is_one_row_and_the_rows_around_it_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa9"}\n\n{"a": "\xc3\xa9", "b": nope}\n{"a": 3}\n')
    rows = JsonRows([file])
    assert len(rows) == 3
    assert [rows[0], rows[2]] == [{"a": "é"}, {"a": 3}]
    with pytest.raises(
        MalformedRow, match=r"rows\.jsonl, line 3 is not valid JSON: .* \(byte 33 of the file\)"
    ) as caught:
        rows[1]
    told = pickle.loads(pickle.dumps(caught.value))
    assert (told.path, told.line, told.column, told.offset, told.reason) == (str(file), 3, 17, 33, "malformed_json")
    assert file.read_bytes()[told.offset :].startswith(b"nope")
    assert str(told) == str(caught.value)
    assert isinstance(told, OSError)
    assert isinstance(told, ValueError)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", b'{"a": 1, "a": 2}', "the key 'a' stands twice in one object"),
        ("a.jsonl", b'{"t": {"b": 1, "b": 1}}', "the key 'b' stands twice"),
        ("a.jsonl", b'{"a": "x\x00"}', "Invalid control character at column 9"),
        ("a.jsonl", b"\x00\x00\x00", "Expecting value at column 1"),
        ("a.jsonl", b'\xef\xbb\xbf{"a": 2}', "Unexpected UTF-8 BOM"),
        ("a.jsonl", b'{"a": ' + b"1" * 5000 + b"}", "Exceeds the limit"),
        ("a.json", b'{"a": 1} {"a": 2}', "Extra data at column 10"),
    ],
)
def test_a_row_that_is_no_json_object_is_named(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(b'{"ok": 1}\n' + content + b'\n{"ok": 3}\n')
    rows = JsonRows([tmp_path / name])
    assert [rows[0], rows[2]] == [{"ok": 1}, {"ok": 3}]
    with pytest.raises(MalformedRow, match=rf"{name}, line 2 is not valid JSON: {sentence}"):
        rows[1]


def test_numbers_are_those_of_python_and_nulls_are_told_from_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(
        '{"a": 1.0, "b": 1e5, "c": 123456789012345678901234567890, "d": null, "f": NaN}\n{"a": 1, "e": -0.0}\n'
    )
    rows = read(file)
    assert [(type(rows[0]["a"]), type(rows[1]["a"])), repr(rows[0])] == [
        (float, int),
        "{'a': 1.0, 'b': 100000.0, 'c': 123456789012345678901234567890, 'd': None, 'f': nan}",
    ]
    assert repr(rows[1]) == "{'a': 1, 'e': -0.0}"


def test_the_keys_of_one_row_never_come_into_another(tmp_path: Path) -> None:
    tools = [{"name": "a", "parameters": {"x": {"type": "int"}}}, {"name": "b", "parameters": {"y": None}}]
    for name, separator in (("a.jsonl", "\n"), ("b.json", ",\n")):
        text = separator.join(json.dumps({"tools": [tool]}) for tool in tools)
        (tmp_path / name).write_text(f"[{text}]" if name == "b.json" else text)
        assert read(tmp_path / name) == [{"tools": [tool]} for tool in tools]


def test_a_row_of_50_megabytes_is_a_row(tmp_path: Path) -> None:
    text = "é\r\n\t" * 10_000_000
    line = json.dumps({"a": text}, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_text(f'{{"a": 1}}\n{line}\n{{"a": 2}}\n', encoding="utf-8")
    (tmp_path / "b.json").write_text(f'[{{"a": 1}}, {line}, {{"a": 2}}]', encoding="utf-8")
    for name in ("a.jsonl", "b.json"):
        rows = JsonRows([tmp_path / name])
        assert [rows[0], rows[2], len(rows)] == [{"a": 1}, {"a": 2}, 3]
        assert rows[1]["a"] == text


@pytest.mark.parametrize("name", ["a.jsonl", "b.json"])
def test_opening_holds_a_window_of_the_file_not_the_file(tmp_path: Path, name: str) -> None:
    line = json.dumps({"a": "é" * 500}, ensure_ascii=False)
    num_rows = 30_000
    text = "\n".join([line] * num_rows) if name == "a.jsonl" else f"[{','.join([line] * num_rows)}]"
    (tmp_path / name).write_text(text, encoding="utf-8")
    size = (tmp_path / name).stat().st_size
    tracemalloc.start()
    rows = JsonRows([tmp_path / name])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(rows) == num_rows
    assert peak < size / 3  # 30 MB


def test_an_empty_file_among_others_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    for name, text in (("a.jsonl", ""), ("b.jsonl", '{"a": 1}\n'), ("c.json", "[]"), ("d.jsonl", " \n\t\n")):
        (tmp_path / name).write_text(text)
    with pytest.warns(UserWarning, match=r"3 of 4 files hold no rows: .*a\.jsonl is empty; .*only whitespace\. They"):
        rows = load_rows("json", data_files=f"{tmp_path}/*.json*", split="train")
    assert len(rows) == 1
    with pytest.raises(SourceError, match=r"d\.jsonl holds only whitespace\. Give a file"):
        JsonRows([tmp_path / "d.jsonl"])


def test_files_of_other_formats_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"PAR1\x15\x04")
    with pytest.raises(SourceError, match=r"another format, not JSON\. Read it with source='parquet'"):
        JsonRows([tmp_path / "a.json"])
    (tmp_path / "a.jsonl").write_text('{"a": 1}', encoding="utf-16")
    with pytest.raises(SourceError, match=r"a\.jsonl is written in UTF-16\. Save it as UTF-8"):
        JsonRows([tmp_path / "a.jsonl"])


def test_more_files_than_are_kept_open_are_read(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number:03}.jsonl").write_text(f'{{"n": {number}}}\n')
    rows = JsonRows(sorted(tmp_path.iterdir()))
    asked = [*range(100), *range(99, -1, -1)] * 5
    with ThreadPoolExecutor(max_workers=8) as threads:
        assert [row["n"] for row in threads.map(rows.__getitem__, asked)] == asked


@given(ROWS, st.integers(1, 40))
def test_a_list_is_found_whatever_the_window_cuts(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], window: int
) -> None:
    file = tmp_path_factory.mktemp("rows") / "a.json"
    file.write_text(json.dumps(rows, ensure_ascii=False, indent=window % 3 or None), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchpipe.sources.json_list._WINDOW", window)
        assert read(file) == rows


def test_deep_nesting_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "deep.jsonl").write_text('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(SourceError, match="line 1 is not valid JSON: it nests deeper"):
        check_rows(JsonRows([tmp_path / "deep.jsonl"]))


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": 1}\n{"a": 2}\n')
    rows = JsonRows([file])
    assert rows[0] == {"a": 1}
    with file.open("a") as more:
        more.write('{"a": 3}\n')
    with pytest.raises(SourceError, match=r"rows\.jsonl has changed since it was opened"):
        rows[1]


def test_rows_travel_to_worker_processes(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    rows = JsonRows([tmp_path / "rows.jsonl"])
    assert rows[1] == pickle.loads(pickle.dumps(rows))[-1] == {"a": 2}
    with pytest.raises(IndexError, match="Row 2 was asked for, and there are 2"):
        rows[2]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    for name, count in (("one", 10), ("two", 4)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"n": "{name}{i}"}}\n' for i in range(count)))
    return {name: str(tmp_path / f"{name}.jsonl") for name in ("one", "two")}


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("train", [f"one{i}" for i in range(10)]),
        ("train[:30%]", ["one0", "one1", "one2"]),
        ("train[-2:]", ["one8", "one9"]),
        ("train[:1]+test[2:]", ["one0", "two2", "two3"]),
        ("test+train[:1]", ["two0", "two1", "two2", "two3", "one0"]),
    ],
)
def test_splits_are_read_as_load_dataset_reads_them(
    files: dict[str, str], split: str, expected: list[str], data_cache: Path
) -> None:
    import datasets

    data_files = {"train": files["one"], "test": files["two"]}
    rows = load_rows("json", data_files=data_files, split=split)
    assert [rows[i]["n"] for i in range(len(rows))] == expected
    theirs = datasets.load_dataset("json", data_files=data_files, split=split, cache_dir=str(data_cache))
    assert [row["n"] for row in theirs] == expected  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_several_files_patterns_and_a_folder(files: dict[str, str], tmp_path: Path) -> None:
    assert len(load_rows("json", data_files=list(files.values()), split="train")) == 14
    assert len(load_rows("json", data_files=str(tmp_path / "*.jsonl"), split="train")) == 14
    assert len(load_rows("json", data_files="one.jsonl", data_dir=str(tmp_path), split="train")) == 10
    odd = tmp_path / "chats[1].jsonl"
    odd.write_text('{"n": "x"}\n')
    assert len(load_rows("json", data_files=str(odd), split="train")) == 1


def test_splits_that_cannot_be_read_are_sentences(files: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"split='test' can't be read: .*The splits are train"):
        load_rows("json", data_files=files["one"], split="test")
    with pytest.raises(SourceError, match=r"nothing is left for split='train\[90%:95%\]'"):
        load_rows("json", data_files=files["two"], split="train[90%:95%]")
    with pytest.raises(ConfigError, match="has the splits train, test. Name one"):
        load_rows("json", data_files={"train": files["one"], "test": files["two"]})


def test_files_of_one_split_need_no_split(files: dict[str, str], tmp_path: Path) -> None:
    def rows_of(source: str, **options: Any) -> list[Any]:
        rows = load_rows(source, **options)
        return [rows[index] for index in range(len(rows))]

    whole = rows_of("json", data_files=files["one"], split="train")
    assert rows_of("json", data_files=files["one"]) == rows_of(files["one"]) == whole
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "x.jsonl").write_text('{"n": 1}\n')
    assert rows_of(str(tmp_path / "eval")) == [{"n": 1}]
    (tmp_path / "a.parquet").touch()
    with pytest.raises(SourceError, match="a.parquet"):  # which load_dataset is asked to read, by the same split
        load_rows(str(tmp_path / "a.parquet"))


def test_a_format_without_files_is_refused_before_a_folder_is_searched() -> None:
    with pytest.raises(ConfigError, match="source='json' reads files, and no data_files were given"):
        load_rows("json", split="train", data_files=None)


def test_the_rows_of_a_split_are_checked_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": 2}\nbroken\n')
    for split in ("train", "train[1:]", "train[:1]+train[2:]"):
        with pytest.raises(MalformedRow, match="line 3 is not valid JSON"):
            check_rows(load_rows(str(tmp_path / "a.jsonl"), split=split))
    check_rows(load_rows(str(tmp_path / "a.jsonl"), split="train[:2]"))


def test_views_choose_and_join_rows() -> None:
    rows: Any = [{"n": i} for i in range(4)]
    kept: Any = KeptRows(rows, [3, 1])  # pyright: ignore[reportArgumentType]
    joined = JoinedRows([kept, rows])
    assert [joined[i]["n"] for i in range(-6, 6)] == [3, 1, 0, 1, 2, 3] * 2
    with pytest.raises(IndexError, match="Row 6 was asked for, and there are 6"):
        joined[6]
