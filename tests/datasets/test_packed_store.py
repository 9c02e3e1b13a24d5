"""Packed data sets over token stores: built once, planned from lengths, the same samples whatever packs them."""

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from torchpipe.data import padded_collate_packed
from torchpipe.data.message_transforms import InputOutputToMessages
from torchpipe.datasets import ConcatDataset, PackedDataset, SFTDataset, StoredDataset, chat_dataset
from torchpipe.errors import ConfigError, DataError, StoreError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.store import TokenStore

Chats = Callable[..., Path]


@pytest.fixture
def chats(tmp_path: Path) -> Chats:
    """Function (number of rows, name) -> a file of chats of many lengths."""

    def write(rows: int, name: str = "chats.jsonl") -> Path:
        made = [
            {
                "messages": [
                    {"role": "user", "content": f"Say {number} {'please ' * (number % 7)}"},
                    {"role": "assistant", "content": f"{number} " * (1 + number * number % 23)},
                ]
            }
            for number in range(rows)
        ]
        file = tmp_path / name
        file.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
        return file

    return write


def built(file: Path, **options: Any) -> Any:
    tokenizer = tiny_tokenizer(max_seq_len=64, mask_policy="sampled")
    return chat_dataset(
        tokenizer,
        source="json",
        data_files=str(file),
        conversation_column="messages",
        conversation_style="openai",
        **options,
    )


def pairs(dataset: Any) -> Counter[tuple[int, int]]:
    """How often each (input, label) pair is trained."""
    found: Counter[tuple[int, int]] = Counter()
    for index in range(len(dataset)):
        tokens, labels = (np.asarray(dataset[index][key]) for key in ("tokens", "labels"))
        found.update(zip(tokens[labels != -100].tolist(), labels[labels != -100].tolist(), strict=True))
    return found


STRATEGIES = ("next_fit", "concat_then_split", "first_fit", "best_fit", "best_fit_decreasing")


def test_packed_by_any_strategy_stored_or_plain_the_same_pairs_are_trained(chats: Chats) -> None:
    file = chats(60)
    expected = pairs(built(file))
    assert sum(expected.values()) > 500
    assert pairs(built(file, cache=True)) == expected
    for strategy in STRATEGIES:
        packed = built(file, packed=True, strategy=strategy)
        assert pairs(packed) == expected
        assert packed.counts.rows == 60
        assert packed.counts.trained_tokens == sum(expected.values()) == packed.trained_counts.sum()


def test_real_rows_train_the_same_pairs_packed_stored_and_plain(shared_data: Path) -> None:
    options: dict[str, Any] = {
        "source": "json",
        "data_files": str(shared_data / "gsm8k" / "train.jsonl"),
        "split": "train[:300]",
        "message_transform": InputOutputToMessages(column_map={"input": "question", "output": "answer"}),
        "model_transform": tiny_tokenizer(max_seq_len=512),
    }
    plain = SFTDataset(**options)
    packed = PackedDataset(plain, max_seq_len=512, strategy="best_fit_decreasing")
    assert pairs(packed) == pairs(plain) == pairs(StoredDataset(plain.recipe))
    assert packed.plan.fill > PackedDataset(plain, max_seq_len=512).plan.fill


def test_without_a_strategy_packs_are_in_the_order_of_the_rows(chats: Chats) -> None:
    packed = built(chats(20), packed=True)
    order = [span.sample for index in range(len(packed)) for span in packed.spans(index)]
    assert order == list(range(20))


def test_a_second_start_tokenises_nothing(chats: Chats, monkeypatch: pytest.MonkeyPatch) -> None:
    file = chats(20)
    first = built(file, packed=True, strategy="best_fit_decreasing")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a row was tokenised again")

    monkeypatch.setattr("torchpipe.data.sample_transforms.SFTTransform.fitted", refuse)
    monkeypatch.setattr("torchpipe.sources.huggingface.load_rows", refuse)
    again = built(file, packed=True, strategy="best_fit_decreasing")
    assert again.fingerprint == first.fingerprint
    assert all(torch.equal(again[k]["tokens"], first[k]["tokens"]) for k in range(len(first)))


def test_a_second_start_does_not_import_datasets(chats: Chats, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from torchpipe.datasets import chat_dataset\n"
        "from torchpipe.models.tiny import tiny_tokenizer\n"
        "packed = chat_dataset(tiny_tokenizer(max_seq_len=64), source='json', data_files=sys.argv[1], packed=True,\n"
        "                      conversation_column='messages', conversation_style='openai')\n"
        "packed[0]\n"
        "print(sorted({'datasets', 'pyarrow', 'grain'} & set(sys.modules)), packed.fingerprint)\n"
    )
    command = [sys.executable, "-c", code, str(chats(20))]
    outputs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().rpartition(" ")
        for _ in range(2)
    ]
    assert outputs[0][2] == outputs[1][2]
    assert outputs[1][0] == "[]"


def test_two_data_sets_of_one_class_never_share_a_store(chats: Chats) -> None:
    one, other = built(chats(20), packed=True), built(chats(21, "more.jsonl"), packed=True)
    assert (one.counts.rows, other.counts.rows) == (20, 21)
    assert one.fingerprint != other.fingerprint


def test_changed_rows_and_changed_settings_are_tokenised_anew(chats: Chats) -> None:
    file = chats(20)
    before = built(file, packed=True)
    unmasked = built(file, packed=True, masking_strategy="train_on_all")
    assert unmasked.counts.trained_tokens > before.counts.trained_tokens
    file.write_text(file.read_text().replace("Say 3", "Say three"), encoding="utf-8")
    assert built(file, packed=True).fingerprint != before.fingerprint


def test_other_packs_of_the_same_samples_are_chosen_by_a_seed(chats: Chats) -> None:
    packed = built(chats(80), packed=True, strategy="best_fit_decreasing")
    first, again, second = packed.replanned(1), packed.replanned(1), packed.replanned(2)
    assert first.fingerprint == again.fingerprint
    assert len({packed.fingerprint, first.fingerprint, second.fingerprint}) == 3
    assert pairs(first) == pairs(second) == pairs(packed)
    assert first.trained_counts.sum() == packed.trained_counts.sum()


def test_items_read_together_are_the_items(chats: Chats) -> None:
    packed = built(chats(60), packed=True)
    together = packed.__getitems__([2, 0, -1])
    for item, index in zip(together, (2, 0, len(packed) - 1), strict=True):
        assert all(torch.equal(item[key], packed[index][key]) for key in item)


def test_workers_read_the_same_store(chats: Chats) -> None:
    packed = built(chats(60), packed=True)
    plain = [batch["tokens"] for batch in DataLoader(packed, batch_size=2, collate_fn=padded_collate_packed)]
    worked = [
        batch["tokens"] for batch in DataLoader(packed, batch_size=2, collate_fn=padded_collate_packed, num_workers=2)
    ]
    assert all(torch.equal(a, b) for a, b in zip(plain, worked, strict=True))
    assert len(pickle.dumps(packed)) < 20_000
    assert pickle.loads(pickle.dumps(packed)).fingerprint == packed.fingerprint


def test_a_padding_pack_trains_nothing(chats: Chats) -> None:
    packed = built(chats(20), packed=True)
    padding = packed.padding_pack()
    assert set(padding) == set(packed[0])
    assert not (padding["labels"] != -100).any()
    assert padding["seq_lens"].tolist() == [64]


def test_costs_are_integers_and_grow_with_attention(chats: Chats) -> None:
    packed = built(chats(60), packed=True)
    costs = packed.costs
    assert costs.dtype == np.int64
    lens = [packed[index]["seq_lens"].square().sum().item() for index in range(len(packed))]
    assert np.argmax(costs) == np.argmax(lens)


def test_a_store_can_be_packed_itself(chats: Chats) -> None:
    packed = built(chats(20), packed=True)
    store = TokenStore.open(packed._packed.samples.path)
    again = PackedDataset(store, max_seq_len=64, padding_idx=packed.padding_idx)
    assert again.fingerprint == packed.fingerprint
    assert again.samples is None


def test_rows_left_out_are_counted_and_rows_keep_their_numbers(chats: Chats) -> None:
    packed = built(chats(60), packed=True, overflow="drop", max_seq_len=40, filter_fn=_says_an_even_number)
    counts = packed.counts
    assert counts.filtered_rows == 30
    assert counts.too_long_rows > 0
    assert counts.rows + counts.filtered_rows + counts.too_long_rows == 60
    rows = [packed.row_of(sample)[0] for sample in range(counts.rows)]
    assert all(row % 2 == 0 for row in rows)
    assert f"Say {rows[0]} " in packed.samples.rows[rows[0]]["messages"][0]["content"]


def _says_an_even_number(row: dict[str, Any]) -> bool:
    return int(row["messages"][0]["content"].split()[1]) % 2 == 0


def test_a_cached_data_set_may_drop_and_split_rows(chats: Chats) -> None:
    file = chats(60)
    with pytest.raises(ConfigError, match=r"gives a row no sample or several.*cache=True"):
        built(file, overflow="split", max_seq_len=30)
    stored = built(file, cache=True, overflow="split", max_seq_len=30)
    assert len(stored) > 60
    assert [stored.row_of(index)[0] for index in range(len(stored))] == sorted(
        stored.row_of(index)[0] for index in range(len(stored))
    )
    assert max(stored.lengths) <= 30
    assert stored.counts.split_rows > 0


def test_stored_items_are_those_of_the_uncached_data_set(chats: Chats) -> None:
    file = chats(20)
    plain, stored = built(file), built(file, cache=True)
    assert len(stored) == len(plain) == 20
    for index in range(-1, 20):
        assert stored[index]["tokens"].tolist() == plain[index]["tokens"]
        assert stored[index]["labels"].tolist() == plain[index]["labels"]
        assert stored[index]["mask"].tolist()[1:] == plain[index]["mask"][1:]
    assert pickle.loads(pickle.dumps(stored))[3]["tokens"].tolist() == plain[3]["tokens"]
    with pytest.raises(IndexError, match="Sample 20 was asked for"):
        stored[20]


def test_joined_data_sets_are_packed_from_one_store(chats: Chats) -> None:
    parts = [built(chats(20)), built(chats(9, "more.jsonl"))]
    packed = PackedDataset(ConcatDataset(parts), max_seq_len=64)
    assert packed.counts.rows == 29
    assert pairs(packed) == pairs(parts[0]) + pairs(parts[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"packed": True, "strategy": "best_fit", "split_across_pack": True}, "is the strategy 'concat_then_split'"),
        ({"packed": True, "strategy": "best_fitt"}, "Did you mean 'best_fit'"),
        ({"packed": True, "num_proc": 0}, "num_proc is 0"),
    ],
)
def test_what_does_not_fit_is_refused(chats: Chats, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(chats(20), **options)


def test_no_rows_left_to_pack_is_refused() -> None:
    with pytest.raises(DataError, match="there is no sample to pack"):
        PackedDataset([], max_seq_len=8)


def test_a_file_whose_middle_was_changed_in_secret_is_found_by_its_content(chats: Chats, tmp_path: Path) -> None:
    file = chats(3000)
    assert file.stat().st_size > 3 * 2**17
    options: dict[str, Any] = {"source": "json", "conversation_column": "messages", "conversation_style": "openai"}
    options |= {"cache_dir": str(tmp_path / "cache"), "num_proc": 1, "data_files": str(file)}

    def digests() -> list[str]:
        ways = ("ends", "content")
        tokenizer = tiny_tokenizer(max_seq_len=512)
        built: list[Any] = [chat_dataset(tokenizer, cache=True, fingerprint=way, **options) for way in ways]
        return [one.counts.digest for one in built]

    before, stat = digests(), file.stat()
    with file.open("r+b") as opened:
        opened.seek(file.read_bytes().index(b"Say 1500 "))
        opened.write(b"Ask 1500 ")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    after = digests()
    assert after[0] == before[0] == before[1] != after[1]
    with pytest.raises(ConfigError, match="fingerprint is 'all'. It is 'ends' or 'content'"):
        chat_dataset(tiny_tokenizer(max_seq_len=64), cache=True, fingerprint="all", **options)
    with pytest.raises(ConfigError, match="fingerprint='content' has no effect without packed=True or cache=True"):
        chat_dataset(tiny_tokenizer(), fingerprint="content", **options)


def test_rows_that_are_all_left_out_are_refused_with_what_became_of_them(chats: Chats) -> None:
    with pytest.raises(DataError, match=r"no sample is left to pack. 0 rows.*20 more rows left out, longer than max_"):
        built(chats(20), packed=True, overflow="drop", max_seq_len=4)


def test_a_flipped_bit_in_a_store_is_found_when_it_is_read(chats: Chats) -> None:
    file = chats(20)
    folder = built(file, packed=True)._packed.samples.path
    tokens = folder / "shards" / "00000" / "tokens.npy"
    content = bytearray(tokens.read_bytes())
    content[-9] ^= 1
    tokens.write_bytes(content)
    packed = built(file, packed=True)
    with pytest.raises(StoreError, match=r"tokens.npy was changed after it was written: the checksum"):
        list(packed)
