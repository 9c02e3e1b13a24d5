"""What is read of a store is what was written, in any spans."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchpipe.errors import ConfigError, StoreError
from torchpipe.store import TokenStore, shard_folder, write_shard
from torchpipe.store.publishing import publish_json
from torchpipe.store.sealed_json import read_sealed, sealed

Make = Callable[..., Path]


@st.composite
def samples(draw: st.DrawFn, kind: str) -> list[dict[str, Any]]:
    """Up to eight samples; what their labels are is one of four kinds."""
    found = []
    for _ in range(draw(st.integers(0, 8))):
        length = draw(st.integers(0, 20))
        tokens = draw(st.lists(st.integers(0, 300), min_size=length, max_size=length))
        flags = draw(st.lists(st.booleans(), min_size=length, max_size=length))
        following = [*tokens[1:], 7 if kind == "continued" else -100]
        labels = [label if flag else -100 for label, flag in zip(following, flags, strict=False)]
        if kind == "explicit":
            labels = draw(st.lists(st.sampled_from([-100, 0, 1, 300]), min_size=length, max_size=length))
        sample: dict[str, Any] = {"tokens": tokens, "labels": labels[:length]}
        if kind == "weighted":
            weights = st.floats(0, 2, width=32)
            sample["loss_weights"] = draw(st.lists(weights, min_size=length, max_size=length))
        found.append(sample)
    return found


KINDS = st.sampled_from(["plain", "continued", "explicit", "weighted"])


@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_spans_are_gathered_as_they_were_written(
    data: st.DataObject, make_store: Make, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shards = [data.draw(samples(data.draw(KINDS))) for _ in range(data.draw(st.integers(0, 4)))]
    vocab_size = data.draw(st.sampled_from([301, 70_000, None]))
    folder = make_store(*shards, name=tmp_path_factory.mktemp("s").name, vocab_size=vocab_size)
    store = TokenStore.open(folder, verify=data.draw(st.sampled_from(["sizes", "lazy", "full"])))
    written = [sample for shard in shards for sample in shard]
    assert (len(store), store.num_tokens) == (len(written), sum(len(sample["tokens"]) for sample in written))
    assert store.lengths.tolist() == [len(sample["tokens"]) for sample in written]
    assert store.trained_counts.tolist() == [sum(x != -100 for x in sample["labels"]) for sample in written]
    assert store.rows.tolist() == list(range(len(written)))
    assert store.largest_token_id == max((x for sample in written for x in sample["tokens"]), default=-1)
    assert store.has_weights == any("loss_weights" in sample for sample in written)

    spans = []
    for k in data.draw(st.lists(st.integers(0, len(written) - 1), max_size=12)) if written else []:
        start = data.draw(st.integers(0, len(written[k]["tokens"])))
        spans.append((k, start, data.draw(st.integers(start, len(written[k]["tokens"])))))
    sample, start, stop = np.array(spans, np.int64).reshape(-1, 3).T
    total = int((stop - start).sum())
    # What is not written to shows up as these.
    tokens, labels, weights = np.full(total, -7), np.full(total, -7), np.full(total, -7, np.float32)
    store.gather(sample, start, stop, tokens=tokens, labels=labels, loss_weights=weights)

    def expected(name: str) -> list:
        plain = [{"loss_weights": [1.0] * len(sample["tokens"]), **sample} for sample in written]
        return [value for k, first, last in spans for value in plain[k][name][first:last]]

    assert tokens.tolist() == expected("tokens")
    assert labels.tolist() == expected("labels")
    assert weights.tolist() == expected("loss_weights")
    counts = [sum(x != -100 for x in written[k]["labels"][first:last]) for k, first, last in spans]
    assert store.trained_in(sample, start, stop).tolist() == counts


@pytest.mark.parametrize("verify", ["sizes", "lazy"])
def test_spans_of_text_that_is_trained_throughout_have_the_labels_of_their_samples(
    make_store: Make, verify: Any
) -> None:
    samples = [{"tokens": list(range(at, at + 5)), "labels": [*range(at + 1, at + 5), -100]} for at in (0, 10, 20)]
    store = TokenStore.open(make_store(samples[:2], samples[2:]), verify=verify)
    spans = [(2, 0, 4), (0, 1, 5), (1, 3, 3), (1, 5, 5), (1, 2, 3), (2, 4, 5)]
    sample, start, stop = np.array(spans).T
    total = int((stop - start).sum())
    tokens, labels = np.full(total, -7), np.full(total, -7)
    store.gather(sample, start, stop, tokens=tokens, labels=labels)
    assert tokens.tolist() == [value for k, first, last in spans for value in samples[k]["tokens"][first:last]]
    assert labels.tolist() == [value for k, first, last in spans for value in samples[k]["labels"][first:last]]


def test_a_sample_is_a_dict_of_arrays(make_store: Make) -> None:
    sample = {"tokens": [1, 2], "labels": [2, -100], "loss_weights": [0.5, 0.0]}
    found = TokenStore.open(make_store([sample])).sample(0)
    assert {name: (array.tolist(), array.dtype.name) for name, array in found.items()} == {
        "tokens": ([1, 2], "int64"),
        "labels": ([2, -100], "int64"),
        "loss_weights": ([0.5, 0.0], "float32"),
    }


def test_weight_sums_count_trained_labels_only(make_store: Make) -> None:
    weighted = {"tokens": [1, 2, 3], "labels": [2, -100, -100], "loss_weights": [0.25, 4.0, 4.0]}
    plain = {"tokens": [1, 2, 3], "labels": [2, 3, -100]}
    assert TokenStore.open(make_store([weighted], [plain])).weight_sums.tolist() == [0.25, 2.0]
    assert TokenStore.open(make_store([plain], name="b" * 32)).weight_sums.tolist() == [2.0]


def test_what_became_of_the_rows_and_of_what_it_was_made_is_kept(make_store: Make) -> None:
    sample = {"tokens": [1], "labels": [-100]}
    store = TokenStore.open(make_store([sample, sample], num_rows=4, left_out=np.array([[2, 3], [3, 1]])))
    assert store.left_out.tolist() == [[2, 3], [3, 1]]
    assert store.num_rows == 4
    assert store.ledger == {"filtered": 2}
    assert store.key == {"source": "chats.json", "tokenizer": "bytes"}
    assert store.libraries["numpy"] == np.__version__


def test_the_digest_tells_other_samples_apart(make_store: Make) -> None:
    one = {"tokens": [1, 2, 3], "labels": [2, 3, -100]}
    stores = {
        "same": [one, one],
        "again": [one, one],
        "tokens": [one, one | {"tokens": [1, 2, 4]}],
        "labels": [one, one | {"labels": [2, -100, -100]}],
        "explicit": [one, one | {"labels": [2, 9, -100]}],
        "last": [one, one | {"labels": [2, 3, 9]}],
        "lengths": [{"tokens": [1, 2, 3, 1], "labels": [2, 3, -100, 2]}, {"tokens": [2, 3], "labels": [3, -100]}],
        "weights": [sample | {"loss_weights": [1.0, 0.5, 0.0]} for sample in (one, one)],
    }
    digests = {name: TokenStore.open(make_store(found, name=name)).digest for name, found in stores.items()}
    assert digests["same"] == digests["again"]
    assert len(set(digests.values())) == len(stores) - 1


def test_pickled_it_is_its_path(make_store: Make, chats: Callable[..., list], read_all: Callable) -> None:
    store = TokenStore.open(make_store(chats(300), chats(300, seed=1)), verify="lazy")
    pickled = pickle.dumps(store)
    assert len(pickled) < 1024
    opened = pickle.loads(pickled)
    assert opened.verify == "lazy"
    assert read_all(opened) == read_all(store)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).digest)"
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=True)
    assert done.stdout.decode().strip() == store.digest


def test_a_worker_finds_out_that_the_store_was_built_anew(make_store: Make, chats: Callable[..., list]) -> None:
    pickled = pickle.dumps(TokenStore.open(make_store(chats(3))))
    make_store(chats(3, seed=1))
    with pytest.raises(StoreError, match=r"was built anew while it was in use.*Start the run again"):
        pickle.loads(pickled)


def test_finished_shards_are_read_before_the_store_is(
    tmp_path: Path, shard_data: Callable, chats: Callable[..., list], read_all: Callable
) -> None:
    parts = [chats(5, seed=seed) for seed in range(3)]
    publish_json(tmp_path / "key.json", {"source": "x"})
    for number in (0, 2):
        write_shard(shard_folder(tmp_path, number), shard_data(parts[number], first_row=5 * number))
    with pytest.raises(StoreError, match=r"manifest.json is missing: .* is not finished, or no store"):
        TokenStore.open(tmp_path)
    store = TokenStore.open_shards(tmp_path, [2, 0])
    assert read_all(store) == parts[0] + parts[2]
    assert store.rows.tolist() == [*range(5), *range(10, 15)]
    assert pickle.loads(pickle.dumps(store)).digest == store.digest
    with pytest.raises(StoreError, match=r"00001/shard.json is missing"):
        TokenStore.open_shards(tmp_path, [0, 1])


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ((2, 0, 1), "Sample 2 was asked for; the store has 2. Use the plan"),
        ((-1, 0, 1), "Sample -1 was asked for"),
        ((1, 0, 4), "The span 0 to 4 of sample 1 was asked for, which has 3 tokens"),
        ((1, -1, 2), "The span -1 to 2 of sample 1"),
        ((1, 2, 1), "The span 2 to 1 of sample 1"),
    ],
)
def test_spans_that_are_not_there_are_refused(make_store: Make, span: tuple[int, int, int], message: str) -> None:
    store = TokenStore.open(make_store([{"tokens": [1, 2, 3], "labels": [2, 3, -100]}] * 2))
    sample, start, stop = (np.array([value]) for value in span)
    out = np.empty(max(0, span[2] - span[1]), np.int64)
    with pytest.raises(StoreError, match=message):
        store.gather(sample, start, stop, tokens=out, labels=out.copy())
    with pytest.raises(StoreError, match=message):
        store.trained_in(sample, start, stop)


def test_arrays_of_another_length_are_refused(make_store: Make) -> None:
    store = TokenStore.open(make_store([{"tokens": [1, 2, 3], "labels": [2, 3, -100]}]))
    out = np.empty(2, np.int64)
    with pytest.raises(StoreError, match=r"The spans hold 3 tokens; tokens has shape \(2,\), it must be \(3,\)"):
        store.gather(np.array([0]), np.array([0]), np.array([3]), tokens=out, labels=out)


def test_another_word_for_verify_is_refused(make_store: Make) -> None:
    with pytest.raises(ConfigError, match=r"Unknown verify 'lasy'. It is one of 'sizes', 'lazy', 'full'. Did you mean"):
        TokenStore.open(make_store([]), verify="lasy")  # pyright: ignore[reportArgumentType]


def test_another_library_version_is_read(make_store: Make, chats: Callable[..., list], read_all: Callable) -> None:
    folder = make_store(chats(3))
    before = read_all(TokenStore.open(folder))
    manifest = read_sealed(folder / "manifest.json", what="it")
    del manifest["hash"]
    publish_json(folder / "manifest.json", sealed(manifest | {"libraries": {"numpy": "1.0", "torchpipe": "99.0"}}))
    store = TokenStore.open(folder)
    assert store.libraries["torchpipe"] == "99.0"
    assert read_all(store) == before


def test_importing_it_loads_neither_torch_nor_datasets() -> None:
    code = "import sys, torchpipe.store; print({'torch', 'datasets', 'tokenizers', 'tiktoken'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
