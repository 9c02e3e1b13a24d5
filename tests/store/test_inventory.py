"""What is listed of the stores in a folder, and what is pruned."""

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from torchpipe.errors import StoreError
from torchpipe.store import TokenStore
from torchpipe.store.in_use import lock_file
from torchpipe.store.inventory import StoreEntry, list_stores, prune, to_prune
from torchpipe.store.publishing import publish_json
from torchpipe.store.sealed_json import read_sealed, sealed

Make = Callable[..., Path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, write_store: Callable[..., None]) -> Path:
    """A store, to be copied."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    write_store(folder, [{"tokens": [1, 2, 3], "labels": [2, -100, -100]}] * 9)
    return folder


@pytest.fixture
def stores(whole: Path, tmp_path: Path) -> Path:
    """Four stores, last used in the order d, c, b, a: whole, damaged, unfinished, of another format."""
    folders = {letter: Path(shutil.copytree(whole, tmp_path / "store" / (letter * 32))) for letter in "abcd"}
    tokens = folders["b"] / "shards/00000/tokens.npy"
    tokens.write_bytes(tokens.read_bytes()[:-1] + b"\xff")
    (folders["c"] / "manifest.json").unlink()
    value = read_sealed(folders["d"] / "manifest.json", what="it")
    del value["hash"]
    publish_json(folders["d"] / "manifest.json", sealed(value | {"format": 99}))
    for day, letter in enumerate("abcd"):
        for file in folders[letter].rglob("*"):
            os.utime(file, (day * 86400, day * 86400))
    (folders["a"].parent / "mine").mkdir()
    (folders["a"].parent / "mine" / "notes.txt").write_text("no store")
    return folders["a"].parent


def letters(entries: list[StoreEntry]) -> str:
    return "".join(entry.folder.name[0] for entry in entries)


def test_stores_are_listed_with_their_state(stores: Path) -> None:
    entries = list_stores(stores, read_all=True)
    assert [(entry.folder.name[0], entry.state) for entry in entries] == [
        *(("d", "other format"), ("c", "unfinished")),
        *(("b", "damaged"), ("a", "finished")),
    ]
    assert "tokens.npy was changed" in entries[2].problem
    assert "format version 99" in entries[0].problem
    assert entries[3].key["source"] == "chats.json"
    assert entries[3].size == sum(file.stat().st_size for file in entries[3].folder.rglob("*") if file.is_file())
    assert [entry.last_used for entry in entries] == [3 * 86400, 2 * 86400, 86400, 0]


def test_without_reading_all_only_wrong_sizes_are_damage(stores: Path) -> None:
    assert [entry.state for entry in list_stores(stores)][2] == "finished"
    (stores / ("b" * 32) / "shards/00000/tokens.npy").write_bytes(b"")
    assert {entry.folder.name[0]: entry.state for entry in list_stores(stores)}["b"] == "damaged"


def test_opening_a_store_is_using_it(stores: Path) -> None:
    TokenStore.open(stores / ("a" * 32))
    assert letters(list_stores(stores))[0] == "a"


def test_no_folder_is_no_store(tmp_path: Path) -> None:
    assert list_stores(tmp_path / "nowhere") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file can't be read: Not a directory. Give another cache_dir"):
        list_stores(tmp_path / "file")


def test_a_library_of_another_version_is_named(make_store: Make) -> None:
    folder = make_store([])
    value = read_sealed(folder / "manifest.json", what="it")
    del value["hash"]
    libraries = value["libraries"] | {"torchpipe": "99.0", "gone": "1"}
    publish_json(folder / "manifest.json", sealed(value | {"libraries": libraries}))
    (entry,) = list_stores(folder.parent)
    assert entry.other_libraries == {"torchpipe": "99.0", "gone": "1"}
    assert entry.state == "finished"


def test_what_is_to_be_pruned_follows_from_the_conditions(stores: Path) -> None:
    entries = list_stores(stores, read_all=True)
    assert letters(to_prune(entries)) == ""
    assert letters(to_prune(entries, unfinished=True)) == "c"
    assert letters(to_prune(entries, damaged=True)) == "b"
    assert letters(to_prune(entries, unfinished=True, damaged=True)) == "cb"
    assert letters(to_prune(entries, unused_since=2 * 86400)) == "ba"
    assert letters(to_prune(entries, keep_bytes=0)) == "dcba"
    assert letters(to_prune(entries, keep_bytes=entries[0].size + entries[1].size)) == "ba"
    assert letters(to_prune(entries, keep_bytes=10**9)) == ""
    # What is removed for another reason takes no room.
    assert letters(to_prune(entries, unfinished=True, keep_bytes=entries[0].size + entries[2].size)) == "ca"


def test_pruned_stores_are_gone_and_nothing_else_is(stores: Path) -> None:
    entries = list_stores(stores)
    assert letters(list(prune(entries, dry_run=True).removed)) == "dcba"
    assert letters(list_stores(stores)) == "dcba"
    done = prune(entries)
    assert (letters(list(done.removed)), done.in_use) == ("dcba", [])
    assert [path.name for path in stores.iterdir() if path.suffix != ".lock"] == ["mine"]


def test_a_store_that_is_being_built_stays(stores: Path) -> None:
    with FileLock(lock_file(stores / ("c" * 32))):
        done = prune(to_prune(list_stores(stores), unfinished=True))
        assert (letters(list(done.removed)), letters(list(done.in_use))) == ("", "c")
    assert (stores / ("c" * 32) / "key.json").exists()
    assert letters(list(prune(to_prune(list_stores(stores), unfinished=True)).removed)) == "c"


def test_a_store_that_another_process_reads_stays(stores: Path) -> None:
    folder = stores / ("a" * 32)
    code = f"""
import sys
from torchpipe.store import TokenStore
store = TokenStore.open({str(folder)!r})
print("open", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        entries = list_stores(stores)
        assert letters(list(prune(entries).in_use)) == "a"
        assert (folder / "manifest.json").exists()
        reader.stdin.write("\n")
        reader.stdin.flush()
    assert letters(list(prune(entries[:1]).removed)) == "a"


def test_a_store_that_this_process_reads_stays_until_it_is_let_go(stores: Path) -> None:
    store = TokenStore.open(stores / ("a" * 32))
    again = pickle.loads(pickle.dumps(store))
    del store
    assert letters(list(prune(list_stores(stores)[:1]).in_use)) == "a"
    del again
    assert letters(list(prune(list_stores(stores)[:1]).removed)) == "a"
