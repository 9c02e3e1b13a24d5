"""Packed pairs: both sides in one pack, each pair once, whatever the order of packing."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchpipe.data import padded_collate_packed_pairs
from torchpipe.datasets import GrowingPackedDataset, PackedDataset, StoredPreferenceDataset, preference_dataset
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.store import build_store

TOKENIZER = tiny_tokenizer()
COLUMNS = {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"}


def rows(sizes: list[tuple[int, int, int]]) -> list[dict[str, str]]:
    return [
        {"prompt": "why " * (1 + prompt), "chosen": "yes " * (1 + one), "rejected": "no " * (1 + other)}
        for prompt, one, other in sizes
    ]


def packed(source: Any, **options: Any) -> PackedDataset:
    dataset = preference_dataset(TOKENIZER, source=source, column_map=COLUMNS, packed=True, num_proc=1, **options)
    assert isinstance(dataset, PackedDataset)
    return dataset


def pairs_in(dataset: PackedDataset, pack: int) -> list[tuple[int, list[list[int]]]]:
    """Of each pair of a pack, its row and the tokens of both sides, read from the item alone."""
    item, spans = dataset[pack], dataset.spans(pack)
    lengths = item["seq_lens"].tolist()
    texts = item["tokens"].split(lengths)
    found = []
    for first in range(0, len(lengths) - len(lengths) % 2, 2):
        (row, side), (other_row, other_side) = (dataset.row_of(spans[place].sample) for place in (first, first + 1))
        assert (row, side, other_side) == (other_row, 0, 1)
        found.append((row, [texts[first].tolist(), texts[first + 1].tolist()]))
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.tuples(*[st.integers(0, 12)] * 3), min_size=1, max_size=12),
    strategy=st.sampled_from([None, "best_fit_decreasing", "best_fit", "first_fit"]),
)
def test_each_pair_is_in_one_pack_once_with_its_sides_next_to_each_other(
    sizes: list[tuple[int, int, int]], strategy: str | None
) -> None:
    source = [{**row, "rejected": f"{row['rejected']}{place}"} for place, row in enumerate(rows(sizes))]
    alive = preference_dataset(TOKENIZER, source=source, column_map=COLUMNS)
    dataset = packed(source, pack_len=160, strategy=strategy)
    seen = [pair for pack in range(len(dataset)) for pair in pairs_in(dataset, pack)]
    assert sorted(row for row, _ in seen) == list(range(len(sizes)))
    for row, sides in seen:
        assert sides == [alive[row]["chosen_input_ids"], alive[row]["rejected_input_ids"]]


def test_a_batch_of_packs_has_the_trained_tokens_of_every_side() -> None:
    source = rows([(0, 1, 2), (3, 4, 5), (6, 7, 8), (1, 1, 2)])
    dataset = packed(source, pack_len=128, strategy="best_fit_decreasing")
    alive = preference_dataset(TOKENIZER, source=source, column_map=COLUMNS)
    batch = padded_collate_packed_pairs([dataset[pack] for pack in range(len(dataset))])
    assert batch["num_pairs"] == 4
    trained = batch["documents"][batch["labels"] != -100]
    order = [row for pack in range(len(dataset)) for row, _ in pairs_in(dataset, pack)]
    expected = {
        2 * place + side: sum(label != -100 for label in alive[row][f"{name}_labels"])
        for place, row in enumerate(order)
        for side, name in enumerate(("chosen", "rejected"))
    }
    assert Counter(trained.tolist()) == expected


def test_pack_len_is_twice_a_side_so_that_every_pair_fits() -> None:
    short = tiny_tokenizer(max_seq_len=40)
    dataset = preference_dataset(
        short, source=rows([(30, 9, 9), (2, 40, 50)]), column_map=COLUMNS, packed=True, num_proc=1, on_untrained="keep",
        on_equal="keep",
    )  # fmt: skip
    assert isinstance(dataset, PackedDataset)
    assert dataset.max_seq_len == 80
    assert len(dataset) == 2
    with pytest.raises(ConfigError, match="set pack_len, or max_seq_len on the tokenizer"):
        packed(rows([(0, 0, 0)]))
    with pytest.raises(ConfigError, match="pack_len=64 has no effect without packed=True"):
        preference_dataset(TOKENIZER, source=rows([(0, 0, 0)]), column_map=COLUMNS, pack_len=64)


def test_a_pair_that_fits_no_pack_is_an_error_that_overflow_mends() -> None:
    source = rows([(0, 0, 1), (0, 50, 60)])
    with pytest.raises(DataError, match="tokens do not fit a pack of 64, and a group stays together"):
        packed(source, pack_len=64)
    dropped = packed(source, pack_len=64, overflow="drop")
    assert dropped.ledger.as_dict() == {"read": 2, "used": 1, "too_long": 1}
    assert len(packed(source, pack_len=64, overflow="truncate")) == 2


def test_packs_are_never_cut_inside_of_a_pair() -> None:
    with pytest.raises(ConfigError, match="can't hold group"):
        packed(rows([(0, 0, 1)]), pack_len=64, split_across_pack=True)


def test_another_plan_keeps_pairs_together() -> None:
    dataset = packed(rows([(n, n + 1, n) for n in range(8)]), pack_len=128)
    again = dataset.replanned(seed=7)
    found = [row for pack in range(len(again)) for row, _ in pairs_in(again, pack)]
    assert sorted(found) == list(range(8))
    assert found != list(range(8))


def test_first_packs_and_shards_keep_pairs_together() -> None:
    source = rows([(n, n + 1, n) for n in range(8)])
    pairs = preference_dataset(TOKENIZER, source=source, column_map=COLUMNS)
    whole, few = (PackedDataset(pairs, max_seq_len=128, max_packs=limit, num_proc=1) for limit in (None, 1))
    assert pairs_in(few, 0) == pairs_in(whole, 0)
    growing = preference_dataset(
        TOKENIZER,
        source=source,
        column_map=COLUMNS,
        packed=True,
        pack_len=128,
        start="by_shard",
        shard_rows=4,
        num_proc=1,
    )
    assert isinstance(growing, GrowingPackedDataset)
    growing.wait_for(None)
    packs = [growing[pack]["seq_lens"] for pack in range(len(growing))]
    assert sum(len(lengths) // 2 for lengths in packs) == 8
    growing.close()


def test_a_store_of_pairs_is_packed_pair_by_pair() -> None:
    pairs: Any = preference_dataset(TOKENIZER, source=rows([(n, n + 1, n) for n in range(4)]), column_map=COLUMNS)
    store = build_store(pairs.recipe, num_proc=1)
    assert len(StoredPreferenceDataset(store)) == 4
    dataset = PackedDataset(store, max_seq_len=128)
    assert sorted(row for pack in range(len(dataset)) for row, _ in pairs_in(dataset, pack)) == [0, 1, 2, 3]
