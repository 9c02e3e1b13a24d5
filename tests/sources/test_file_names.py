"""Which files a source names, in which order, and what is said of those that can't be read."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchpipe.errors import ConfigError, SourceError
from torchpipe.sources import load_rows, source_fingerprint


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"n": path.name}) + "\n" if "json" in name else f"n\n{path.name}\n")


def names(source: str, split: str = "train", **options: Any) -> list[str]:
    rows = load_rows(source, split=split, **options)
    return [rows[index]["n"] for index in range(len(rows))]


def test_files_of_patterns_and_folders_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, "b.jsonl", "a.jsonl", "c/part-10.jsonl", "c/part-2.jsonl", ".hidden.jsonl", "c/note.csv")
    assert names("json", data_files=f"{tmp_path}/*.jsonl") == ["a.jsonl", "b.jsonl"]
    every = ["a.jsonl", "b.jsonl", "part-10.jsonl", "part-2.jsonl"]
    assert names("json", data_files=f"{tmp_path}/**/*.jsonl") == every
    assert names("json", data_files=str(tmp_path)) == every
    assert names("json", data_dir=str(tmp_path)) == every
    assert names("json", data_dir=str(tmp_path), data_files=["b.jsonl", "a.jsonl"]) == ["b.jsonl", "a.jsonl"]
    assert names(f"{tmp_path}/c/*.jsonl") == ["part-10.jsonl", "part-2.jsonl"]


def test_a_folder_by_itself_has_the_splits_of_its_names(tmp_path: Path) -> None:
    write(tmp_path, "train-00.jsonl", "train-01.jsonl", "eval/x.jsonl", "README.md", "dev contest.json")
    assert names(str(tmp_path)) == ["train-00.jsonl", "train-01.jsonl"]
    assert names(str(tmp_path), "test") == ["x.jsonl"]
    assert names(str(tmp_path), "validation+train[:1]") == ["dev contest.json", "train-00.jsonl"]
    with pytest.raises(ConfigError, match="has the splits validation, test, train. Name one"):
        load_rows(str(tmp_path))


def test_what_a_folder_cannot_say_is_asked(tmp_path: Path) -> None:
    write(tmp_path / "mixed", "a.jsonl", "b.csv")
    with pytest.raises(ConfigError, match="format can't be told from the names of the files .* Give it"):
        names(str(tmp_path / "mixed"))
    write(tmp_path / "some", "train.jsonl", "more.jsonl")
    with pytest.raises(ConfigError, match=r"files of 'train' by their names, and .*more\.jsonl, whose name says no"):
        names(str(tmp_path / "some"))
    write(tmp_path / "csv", "a.csv")
    with pytest.raises(SourceError, match=r"holds no file that ends with '\.json', .*; its files end with '\.csv'"):
        names("json", data_files=str(tmp_path / "csv"))
    assert names(f"{tmp_path}/csv/*") == ["a.csv"]


def test_a_folder_whose_readme_says_how_it_is_read_is_left_to_load_dataset(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", "b.jsonl")
    head = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: b.jsonl\n---\n"
    (tmp_path / "README.md").write_text(head)
    assert names(str(tmp_path)) == ["b.jsonl"]
    told = source_fingerprint(str(tmp_path), {"split": "train"})
    assert set(told) == {"source", "options", "file 0", "file 1", "file 2"}


def test_a_source_may_be_a_file(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", "b.csv")
    assert names(str(tmp_path / "a.jsonl")) == ["a.jsonl"]
    assert names(str(tmp_path / "b.csv")) == ["b.csv"]
    assert names("jsonl", data_files=str(tmp_path / "a.jsonl")) == ["a.jsonl"]
    with pytest.raises(SourceError, match=r"There is no file .*/a\.json .*Did you mean .*/a\.jsonl\?"):
        names(str(tmp_path / "a.json"))
    with pytest.raises(ConfigError, match="is a file by itself. Leave out data_files"):
        names(str(tmp_path / "a.jsonl"), data_files="b.jsonl")


@pytest.mark.parametrize("name", ["chats[1].jsonl", "é ß\u202e日本.jsonl", "a b*?.jsonl", "line\nbreak.jsonl"])
def test_odd_names_are_names(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    assert len(load_rows("json", data_files=str(tmp_path / name), split="train")) == 1
    folder = tmp_path / "in [1] a folder"
    folder.mkdir()
    (folder / name).write_text('{"n": 1}')
    assert len(load_rows(str(folder), split="train")) == 1
    source_fingerprint(str(folder), {"split": "train"})


def test_a_name_that_is_no_text_is_a_name(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl")
    Path(path).write_text('{"n": 1}')
    assert len(load_rows("json", data_files=f"{tmp_path}/*", split="train")) == 1
    told = source_fingerprint("json", {"data_files": f"{tmp_path}/*", "split": "train"})
    assert r"caf\udce9.jsonl" in told["file 0"]
    told["file 0"].encode()


def test_what_is_not_there_is_named_with_what_is_near(tmp_path: Path) -> None:
    write(tmp_path, "chats.jsonl")
    with pytest.raises(SourceError, match=r"There is no file .*chat\.jsonl .*Did you mean .*chats\.jsonl\?"):
        names("json", data_files=str(tmp_path / "chat.jsonl"))
    with pytest.raises(SourceError, match=r"No file matches .*/\*\.json \(.*\)\. .* holds 'chats\.jsonl'\."):
        names("json", data_files=f"{tmp_path}/*.json")
    with pytest.raises(SourceError, match="There is no file .*nowhere"):
        names("json", data_dir=str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="data_files holds 3. Give paths or addresses"):
        names("json", data_files=[3])


def test_a_dangling_link_says_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "gone.jsonl")
    for options in ({"data_files": str(tmp_path / "a.jsonl")}, {"data_files": str(tmp_path)}):
        with pytest.raises(SourceError, match=r"a\.jsonl is a link to .*gone\.jsonl, which is not there"):
            names("json", **options)


def test_links_that_lead_round_in_a_circle_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl")
    (tmp_path / "again").symlink_to(tmp_path)
    assert names("json", data_files=str(tmp_path)) == ["a.jsonl"]


@pytest.fixture
def not_root() -> Iterator[None]:
    """Runs the test as a user whom a file's mode binds."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, not_root: None) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:  # tmp_path's own folders may be root's
        file = Path(folder, "a.jsonl")
        write(Path(folder), "a.jsonl")
        file.chmod(0)
        with pytest.raises(SourceError, match=r"a\.jsonl may not be read by this user \(permission denied\)"):
            names("json", data_files=str(file))
        with pytest.raises(SourceError, match=r"a\.jsonl may not be read by this user"):
            source_fingerprint("json", {"data_files": str(file)})


def test_a_stream_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"streaming=True gives a stream.* Leave it out, since rows of files"):
        load_rows("json", data_files=str(tmp_path / "not even there.jsonl"), split="train", streaming=True)
