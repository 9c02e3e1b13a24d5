"""A full or read-only disk, and limits of the process."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from torchpipe.errors import StoreError
from torchpipe.store import ShardData, TokenStore, publish_store, shard_folder, write_shard
from torchpipe.store.array_file import write_array
from torchpipe.store.publishing import publish_json
from torchpipe.store.sealed_json import sealed

WRITE = """
from torchpipe.errors import StoreError
from torchpipe.store import ShardData, TokenStore, publish_store, shard_folder, write_shard
from torchpipe.store.publishing import publish_json

def write(number, size):
    data = ShardData(
        tokens=np.arange(size), trained=np.zeros(size, bool), lengths=np.array([size]), rows=np.array([number]),
        first_row=number, num_rows=1,
    )
    write_shard(shard_folder(folder, number), data)
"""


def test_a_full_disk_is_a_sentence_and_leaves_no_half_shard(on_small_disk: Callable[..., str]) -> None:
    told = on_small_disk(
        WRITE
        + """
publish_json(folder / "key.json", {})
write(0, 1000)
try:
    write(1, 1_000_000)
except StoreError as error:
    print(error)
print(sorted(path.name for path in (folder / "shards").iterdir()))
publish_store(folder, num_shards=1)
print(TokenStore.open(folder, verify="full").num_tokens)
"""
    )
    sentence, files, num_tokens = told.splitlines()
    assert sentence.endswith(
        "shards/00001 can't be written: the disk is full. Free space, or choose another cache_dir."
    )
    assert (files, num_tokens) == ("['00000']", "1000")


def test_a_disk_that_is_full_at_the_end_leaves_no_manifest(on_small_disk: Callable[..., str]) -> None:
    told = on_small_disk(
        WRITE
        + """
publish_json(folder / "key.json", {})
write(0, 1000)
with open(folder / "filler", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
try:
    publish_store(folder, num_shards=1)
except StoreError as error:
    print(error)
print((folder / "manifest.json").exists(), (folder / "index").exists(), [p.name for p in folder.glob(".*")])
"""
    )
    sentence, left = told.splitlines()
    assert "can't be written: the disk is full." in sentence
    assert left == "False False []"


def test_a_read_only_disk_is_read_and_not_written(on_small_disk: Callable[..., str]) -> None:
    told = on_small_disk(
        WRITE + 'publish_json(folder / "key.json", {})\nwrite(0, 1000)\npublish_store(folder, num_shards=1)',
        then_read_only=WRITE
        + """
print(TokenStore.open(folder, verify="lazy").sample(0)["tokens"].sum())
try:
    write(1, 10)
except StoreError as error:
    print(error)
try:
    publish_json(folder / "key.json", {})
except StoreError as error:
    print(error)
""",
    )
    total, shard, key = told.splitlines()
    assert int(total) == sum(range(1000))
    why = "can't be written: the file system is read-only. Choose another cache_dir."
    assert shard.endswith(f"shards/00001 {why}")
    assert key.endswith(f"key.json {why}")


def test_a_folder_that_can_not_be_made_is_a_sentence(tmp_path: Path, shard_data: Callable) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"file/shards/00000 can't be written: Not a directory"):
        write_shard(tmp_path / "file/shards/00000", shard_data([]))


def test_a_limit_on_file_sizes_is_a_sentence(tmp_path: Path) -> None:
    code = f"""
import resource, signal, numpy as np
from pathlib import Path
folder = Path({str(tmp_path)!r})
{WRITE}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write(0, 100_000)
except StoreError as error:
    print(error)
print(list((folder / "shards").iterdir()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    sentence, left = done.stdout.splitlines()
    assert sentence.endswith(
        "a file may not grow that large there (ulimit -f). Raise the limit, or use smaller shards."
    )
    assert left == "[]"


def test_more_shards_than_the_process_may_open_files_are_read(
    make_store: Callable[..., Path], chats: Callable[..., list]
) -> None:
    parts = [chats(3, seed=seed) for seed in range(30)]
    folder = make_store(*parts)
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
from torchpipe.store import TokenStore
for verify in ("sizes", "lazy", "full"):
    store = TokenStore.open({str(folder)!r}, verify=verify)
    for _ in range(2):
        print([store.sample(k)["tokens"].tolist() for k in range(len(store))])
    store.rows, store.trained_in(store.rows, store.rows * 0, store.lengths // 2)
"""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 40
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str([sample["tokens"] for part in parts for sample in part])] * 6


MEASURE = """
import gc, sys
import numpy as np
from torchpipe.store import TokenStore

def anonymous():
    gc.collect()
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

tokens, labels = np.ones(50_000, np.int64), np.ones(50_000, np.int64)
before = anonymous()
store = TokenStore.open(sys.argv[1])
assert store.trained_counts.sum() >= 0
for first in range(0, len(store), 50):
    sample = np.arange(first, min(first + 50, len(store)))
    stop = store.lengths[sample].astype(np.int64)
    total = int(stop.sum())
    store.gather(sample, np.zeros_like(stop), stop, tokens=tokens[:total], labels=labels[:total])
print(anonymous() - before, store.num_tokens)
"""


@pytest.mark.sized("num_tokens", "stored_tokens")
def test_reading_all_of_a_store_takes_little_memory_of_the_process(tmp_path: Path, num_tokens: int) -> None:
    publish_json(tmp_path / "key.json", {})
    samples, length = 4000, 500
    trained = np.resize([True] * 7 + [False] * 3, samples * length)
    trained[length - 1 :: length] = False
    for number in range(num_tokens // (samples * length)):
        data = ShardData(
            tokens=np.arange(samples * length, dtype=np.uint32) % 128_000,
            trained=trained,
            lengths=np.full(samples, length),
            rows=number * samples + np.arange(samples),
            first_row=number * samples,
            num_rows=samples,
        )
        write_shard(shard_folder(tmp_path, number), data)
    publish_store(tmp_path, num_shards=num_tokens // (samples * length))
    words = [sys.executable, "-c", MEASURE, str(tmp_path)]
    growth, read = map(int, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert read == num_tokens
    assert growth <= 2 * 2**20 + 0.1 * num_tokens


def test_a_store_of_more_than_two_to_the_31_tokens_is_addressed(tmp_path: Path) -> None:
    """Its files are sparse: two shards, each with a long sample that is not written out and a short one behind it."""
    long, short = 2**31 + 11, 5
    for number in range(2):
        folder = shard_folder(tmp_path, number)
        folder.mkdir(parents=True)
        files = {}
        for name, array in {
            "lengths": np.array([long, short], np.uint32),
            "trained_counts": np.array([0, 4], np.uint32),
            "rows": np.arange(2) + 2 * number,
            "left_out": np.zeros((0, 2), np.int64),
        }.items():
            files[name] = write_array(folder / f"{name}.npy", array).as_json()
        for name, dtype, size in (("tokens", "<u2", long + short), ("trained", "|u1", -(-(long + short) // 8))):
            sparse = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=dtype, shape=(size,))
            if name == "tokens":
                sparse[-short:] = np.arange(short) + 10 * number
            else:
                bits = np.zeros(16 + (long + short) % 8, np.uint8)
                bits[-short:-1] = 1
                sparse[-len(np.packbits(bits)) :] = np.packbits(bits, bitorder="little")
            sparse.flush()
            file = folder / f"{name}.npy"
            files[name] = {"size": file.stat().st_size, "dtype": dtype, "shape": [size], "crc32": ""}
        facts = {"first_row": 2 * number, "num_rows": 2, "num_samples": 2, "num_tokens": long + short, "digest": "d"}
        facts |= {"num_trained": 4, "longest": long, "largest_token_id": 14, "counts": {}, "files": files}
        publish_json(folder / "shard.json", sealed(facts))
    publish_json(tmp_path / "key.json", {})
    publish_store(tmp_path, num_shards=2)

    store = TokenStore.open(tmp_path)
    assert store.num_tokens == store.offsets[-1] == 2 * (long + short) > 2**32
    assert store.sample(3)["tokens"].tolist() == [10, 11, 12, 13, 14]
    assert store.sample(3)["labels"].tolist() == [11, 12, 13, 14, -100]
    tokens, labels = np.empty(7, np.int64), np.empty(7, np.int64)
    spans = np.array([[0, long - 2, long], [1, 0, 4], [2, 2**31, 2**31 + 1]])
    store.gather(*spans.T, tokens=tokens, labels=labels)
    assert tokens.tolist() == [0, 0, 0, 1, 2, 3, 0]
    assert labels.tolist() == [-100, -100, 1, 2, 3, 4, -100]
