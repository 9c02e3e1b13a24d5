"""What verify says of a store."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from torchpipe.store.array_file import write_array
from torchpipe.store.manifest import read_manifest
from torchpipe.store.publishing import publish_json
from torchpipe.store.sealed_json import read_sealed, sealed
from torchpipe.store.verify import problems_of

Make = Callable[..., Path]


def test_nothing_is_said_of_a_whole_store_and_of_plans_beside_it(make_store: Make, chats: Callable[..., list]) -> None:
    folder = make_store(chats(20), [], chats(5))
    (folder / "plans").mkdir()
    (folder / "plans" / "x.npy").write_bytes(b"not ours")
    assert list(problems_of(folder)) == []


def test_every_damaged_file_is_named(make_store: Make, chats: Callable[..., list]) -> None:
    folder = make_store(chats(20), chats(5), chats(5))
    tokens = folder / "shards/00000/tokens.npy"
    tokens.write_bytes(tokens.read_bytes()[:-1] + b"\xff")
    (folder / "shards/00001/rows.npy").unlink()
    (folder / "shards/00002/shard.json").unlink()
    (folder / "index/offsets.npy").write_bytes(b"")
    problems = list(problems_of(folder))
    assert len(problems) == 4
    for name, problem in zip(
        (
            "00001/rows.npy is missing",
            "00002/shard.json is missing",
            "00000/tokens.npy was ch",
            "offsets.npy has 0 bytes",
        ),
        problems,
        strict=True,
    ):
        assert name in problem


def test_an_index_that_does_not_agree_with_the_shards_is_named(make_store: Make, chats: Callable[..., list]) -> None:
    folder = make_store(chats(20))
    manifest = read_manifest(folder)
    wrong = np.load(folder / "index/lengths.npy") + np.uint32(1)
    (folder / "index/lengths.npy").unlink()
    facts = write_array(folder / "index/lengths.npy", wrong).as_json()
    value = read_sealed(folder / "manifest.json", what="it")
    del value["hash"]
    publish_json(folder / "manifest.json", sealed(value | {"index": {**manifest.index, "lengths": facts}}))
    (problem,) = problems_of(folder)
    assert "manifest.json does not agree with the shards beside it" in problem
