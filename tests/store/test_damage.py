"""What is on the disk and is not what was written is refused, with the file's name, and never returned as data."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from torchpipe.errors import StoreError
from torchpipe.store import TokenStore, publish_store, shard_folder, write_shard
from torchpipe.store.checksums import BLOCK_SIZE
from torchpipe.store.manifest import FORMAT, OtherFormatError
from torchpipe.store.publishing import publish_json
from torchpipe.store.sealed_json import read_sealed, sealed
from torchpipe.store.verify import problems_of

Make = Callable[..., Path]

WEIGHTED = [{"tokens": [1, 2, 3], "labels": [2, -100, -100], "loss_weights": [0.5, 0.0, 0.0]}] * 9
CONTINUED = [{"tokens": [1, 2, 3], "labels": [2, -100, 9]}] * 9
EXPLICIT = [{"tokens": [1, 2, 3], "labels": [1, 2, 3]}] * 9

FILES = [
    *("manifest.json", "key.json", "index/lengths.npy", "index/offsets.npy", "index/trained_counts.npy"),
    *(f"shards/00000/{name}" for name in ("shard.json", "tokens.npy", "trained.npy", "lengths.npy", "rows.npy")),
    *("shards/00000/trained_counts.npy", "shards/00000/left_out.npy", "shards/00001/last_labels.npy"),
    *("shards/00000/loss_weights.npy", "shards/00000/weight_sums.npy", "shards/00002/labels.npy"),
]
JSON = [name for name in FILES if name.endswith("json")]
ARRAYS = [name for name in FILES if name.endswith("npy")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, write_store: Callable[..., None]) -> Path:
    """A store that has each kind of file."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    write_store(folder, WEIGHTED, CONTINUED, EXPLICIT)
    assert {path.name for path in folder.glob("shards/*/*")} == {Path(name).name for name in FILES if "shards" in name}
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "store"))


def flip(file: Path, at: int, bit: int = 3) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1 << bit
    file.write_bytes(content)


def everything(store: TokenStore) -> Iterator[list]:
    """All that a store gives, read in the way that users read it."""
    for k in range(len(store)):
        yield [array.tolist() for array in store.sample(k).values()]
    yield store.lengths.tolist() + store.trained_counts.tolist() + store.offsets.tolist()
    yield store.rows.tolist()
    yield store.left_out.tolist()
    yield store.weight_sums.tolist()
    ones = np.ones(len(store), np.int64)
    yield store.trained_in(np.arange(len(store)), ones, ones * 2).tolist()


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_when_the_store_is_opened(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(StoreError, match=f"{name} is missing"):
        list(everything(TokenStore.open(folder)))
    assert any(f"{name} is missing" in problem for problem in problems_of(folder))


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size_is_named_when_the_store_is_opened(folder: Path, name: str, change: int) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:change] if change < 0 else content + b"0")
    size = len(content)
    message = f"{name} has {size + change:,} bytes; {size:,} were written. Remove the store .torchpipe store prune"
    with pytest.raises(StoreError, match=message):
        list(everything(TokenStore.open(folder)))
    assert any(f"{name} has {size + change:,} bytes" in problem for problem in problems_of(folder))


@pytest.mark.parametrize("name", JSON)
def test_a_changed_description_is_found_when_the_store_is_opened(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    for at in range(0, len(content), max(1, len(content) // 40)):
        flip(folder / name, at, bit=at % 8)
        with pytest.raises(StoreError, match=name):
            TokenStore.open(folder)
        assert any(name in problem for problem in problems_of(folder))
        (folder / name).write_bytes(content)
    TokenStore.open(folder)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_flipped_bit_is_found_by_reading_all(folder: Path, name: str) -> None:
    size = (folder / name).stat().st_size
    for at in (0, size // 2, size - 1):
        flip(folder / name, at)
        with pytest.raises(
            StoreError, match=f"{name} was changed after it was written: the checksum of its bytes 0 to"
        ):
            TokenStore.open(folder, verify="full")
        assert any(f"{name} was changed" in problem for problem in problems_of(folder))
        flip(folder / name, at)
    TokenStore.open(folder, verify="full")


@pytest.mark.parametrize("name", ["lengths", "offsets", "trained_counts"])
def test_a_flipped_bit_of_the_index_is_found_when_the_store_is_opened(folder: Path, name: str) -> None:
    flip(folder / f"index/{name}.npy", -1)
    with pytest.raises(StoreError, match=f"{name}.npy was changed after it was written"):
        TokenStore.open(folder)


@pytest.mark.parametrize("name", ARRAYS)
def test_read_lazily_a_flipped_bit_is_found_or_does_not_matter(folder: Path, name: str) -> None:
    expected = list(everything(TokenStore.open(folder)))
    flip(folder / name, (folder / name).stat().st_size - 1)
    found, told = [], ""
    try:
        found = list(everything(TokenStore.open(folder, verify="lazy")))
    except StoreError as error:
        told = str(error)
    # A shard's own lengths and counts are read when the store is made, and not again.
    if name.rpartition("/")[2] in ("lengths.npy", "trained_counts.npy") and not told:
        assert found == expected
    else:
        assert f"{name} was changed after it was written" in told


def test_read_lazily_each_block_is_checked_when_it_is_first_read(make_store: Make) -> None:
    length = BLOCK_SIZE // 4
    long = {"tokens": list(range(length)), "labels": [-100] * length}
    folder = make_store([long, long, long])
    flip(folder / "shards/00000/tokens.npy", 2 * BLOCK_SIZE + 1000)
    store = TokenStore.open(folder, verify="lazy")
    assert store.sample(0)["tokens"].tolist() == long["tokens"]
    for _ in range(2):  # found once, it is found again
        with pytest.raises(
            StoreError,
            match=rf"tokens.npy .* its bytes {2 * BLOCK_SIZE:,} to {3 * BLOCK_SIZE - 1:,} differs. Remove the store",
        ):
            store.sample(2)
    whole, start, stop = np.array([1]), np.array([0]), np.array([length - 1000])
    out = np.empty(length - 1000, np.int64)
    store.gather(whole, start, stop, tokens=out, labels=out.copy())
    assert out.tolist() == long["tokens"][:-1000]


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"[]", b"{}", b'"store"', b'{"hash": "x"}', b"\x80abc"])
@pytest.mark.parametrize("name", ["manifest.json", "shards/00000/shard.json"])
def test_something_else_in_place_of_a_description_is_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(StoreError, match=rf"{name} (is not the|was changed)"):
        TokenStore.open(folder)


def test_a_sealed_file_of_another_kind_is_refused(folder: Path) -> None:
    publish_json(folder / "manifest.json", sealed({"kind": "plan", "format": 1}))
    with pytest.raises(StoreError, match=r"is not the manifest of a torchpipe token store: its kind is 'plan'"):
        TokenStore.open(folder)


def test_another_format_version_is_refused_and_is_no_damage(folder: Path) -> None:
    value = read_sealed(folder / "manifest.json", what="it")
    del value["hash"]
    publish_json(folder / "manifest.json", sealed(value | {"format": FORMAT + 1, "unknown": 1}))
    told = rf"is of format version {FORMAT + 1}; this torchpipe reads version {FORMAT}. Build the store"
    with pytest.raises(OtherFormatError, match=told):
        TokenStore.open(folder)


def test_a_folder_that_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"manifest.json is missing: .* is not finished, or no store"):
        TokenStore.open(tmp_path)
    with pytest.raises(StoreError, match=r"manifest.json is missing"):
        TokenStore.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"manifest.json can't be read: Not a directory"):
        TokenStore.open(tmp_path / "file")


def test_another_stores_shard_is_refused(folder: Path, make_store: Make, chats: Callable[..., list]) -> None:
    other = make_store(chats(9), name="b" * 32)
    shutil.rmtree(folder / "shards/00000")
    shutil.copytree(other / "shards/00000", folder / "shards/00000")
    with pytest.raises(StoreError, match=r"00000/shard.json is not the one that the store was made of"):
        TokenStore.open(folder)


def test_another_stores_key_is_refused(folder: Path) -> None:
    (folder / "key.json").write_text(json.dumps({"source": "other.json"}))
    with pytest.raises(StoreError, match=r"key.json was changed after it was written"):
        TokenStore.open(folder)


@pytest.mark.parametrize("first_row", [0, 4])
def test_shards_whose_rows_overlap_are_refused(tmp_path: Path, shard_data: Callable, first_row: int) -> None:
    publish_json(tmp_path / "key.json", {})
    five = [{"tokens": [1], "labels": [-100]}] * 5
    for number, row in enumerate((0, first_row)):
        write_shard(shard_folder(tmp_path, number), shard_data(five, first_row=row))
    message = rf"00001 holds rows from {first_row} on, and .*00000 holds rows up to 4: no row may be in two shards"
    with pytest.raises(StoreError, match=message):
        publish_store(tmp_path, num_shards=2)
    with pytest.raises(StoreError, match=message):
        TokenStore.open_shards(tmp_path, [0, 1])
    assert not (tmp_path / "manifest.json").exists()


def test_a_store_is_not_published_over_a_damaged_shard(tmp_path: Path, shard_data: Callable) -> None:
    publish_json(tmp_path / "key.json", {})
    write_shard(shard_folder(tmp_path, 0), shard_data([{"tokens": [1, 2], "labels": [2, -100]}]))
    flip(tmp_path / "shards/00000/lengths.npy", -1)
    with pytest.raises(StoreError, match=r"lengths.npy was changed"):
        publish_store(tmp_path, num_shards=1)
    with pytest.raises(StoreError, match=r"00001/shard.json is missing"):
        publish_store(tmp_path, num_shards=2)
    assert not (tmp_path / "manifest.json").exists()
