"""Rows of several documents, as Grain makes them: what stands in them, what is counted, what a state goes on from."""

import itertools
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data.packing import plan_packs
from torchpipe.errors import ConfigError, DataError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    FirstFitPackingConfig,
    MMSamplePackingConfig,
    SingleDatasetConfig,
    TextSequence,
)
from torchpipe.pipeline.by_grain.ledger import graph_ledger
from torchpipe.pipeline.by_grain.packed_rows import documents_of

Build = Callable[..., Any]
Rows = Callable[[Any], list[Any]]

LENGTHS = [5, 9, 1, 3, 8, 2, 14, 4, 6, 1, 1, 7, 3, 20, 2, 5]


def documents(lengths: Sequence[int], **options: Any) -> SingleDatasetConfig:
    rows = [ids_of(number, length) for number, length in enumerate(lengths)]
    return SingleDatasetConfig(source=[TextSequence(input_ids=ids, labels=ids + 1) for ids in rows], **options)


def ids_of(number: int, length: int) -> np.ndarray:
    return 1 + 100 * number + np.arange(length)


def held(rows: Sequence[Any]) -> list[list[list[int]]]:
    """The documents of each row, as lists of their tokens."""
    found = []
    for row in rows:
        parts = documents_of(row)
        found.append([part.tolist() for part in np.split(parts.input_ids, np.cumsum(parts.lengths)[:-1])])
    return found


def as_lists(rows: Sequence[TextSequence]) -> list[list[Any]]:
    names = ("input_ids", "labels", "positions", "padding_mask")
    return [[getattr(row, name).tolist() for name in names] for row in rows]


def check_every_state(make: Callable[[], Any]) -> list[TextSequence]:
    """Goes on from each state, in an iterator of its own, and returns the rows."""
    once = iter(make())
    states, rows = [json.dumps(once.get_state())], []
    for row in once:
        rows.append(row)
        states.append(json.dumps(once.get_state()))
    for number, state in enumerate(states):
        again = iter(make())
        again.set_state(json.loads(state))
        assert again.get_state() == json.loads(state)
        assert as_lists(list(again)) == as_lists(rows[number:])
    assert max(map(len, states)) < 400
    return rows


def test_concatenation_fills_rows_in_order_and_cuts_documents_at_the_context(grain_of: Build, graph_rows: Rows) -> None:
    rows = graph_rows(grain_of(ConcatThenSplitPackingConfig(dataset=documents([10, 9, 6]))))
    assert held(rows) == [[list(range(1, 9)), [9, 10], list(range(101, 107))]]
    assert rows[0].positions.tolist() == [*range(8), 0, 1, *range(6)]
    padded = graph_rows(grain_of(ConcatThenSplitPackingConfig(dataset=documents([10, 9, 6]), last_row="pad")))
    assert held(padded[1:]) == [[[107, 108], [109], list(range(201, 207))]]
    assert padded[1].positions.tolist() == [0, 1, 0, *range(6), *range(7)]
    assert padded[1].labels[~padded[1].padding_mask].tolist() == [108, 109, 110, *range(202, 208)]
    assert padded[1].labels[padded[1].padding_mask].tolist() == [-100] * 7
    assert padded[1].input_ids[padded[1].padding_mask].tolist() == [0] * 7


def test_the_last_row_is_left_out_and_counted(grain_of: Build, graph_rows: Rows) -> None:
    dataset = grain_of(ConcatThenSplitPackingConfig(dataset=documents([10, 9, 6]), name="pack"))
    graph_rows(dataset)
    assert graph_ledger(dataset)["pack"].to_dict() == {
        "rows_in": 3,
        "rows_out": 1,
        "rows_left_out": {},
        "rows_split": 0,
        "tokens_in": 25,
        "tokens_out": 16,
        "tokens_left_out": {"last_row": 9},
        "padding": 0,
    }
    graph_ledger(dataset).check()


@pytest.mark.parametrize("last_row", ["drop", "pad"])
@pytest.mark.parametrize("cap", [None, 1, 2, 3])
def test_document_aware_concat_packing_restores_exactly(grain_of: Build, cap: int | None, last_row: Any) -> None:
    config = ConcatThenSplitPackingConfig(dataset=documents(LENGTHS), last_row=last_row)
    rows = check_every_state(lambda: grain_of(config, context={"max_num_documents": cap}, shuffle=True))
    assert all(cap is None or len(row) <= cap for row in held(rows))


def test_the_state_of_a_concatenation_is_where_the_cut_document_begins_and_how_much_was_given(grain_of: Build) -> None:
    rows = iter(grain_of(ConcatThenSplitPackingConfig(dataset=documents([10, 9, 30]))))
    next(rows)
    assert rows.get_state() == {
        "parent": {"next_index": 1},
        "has_remainder": True,
        "remainder_offset": 6,
        "finished": False,
    }


def test_a_state_of_other_data_is_refused(grain_of: Build) -> None:
    rows = iter(grain_of(ConcatThenSplitPackingConfig(dataset=documents([10, 9, 30]))))
    next(rows)
    other = iter(grain_of(ConcatThenSplitPackingConfig(dataset=documents([10, 3, 30]))))
    with pytest.raises(DataError, match="a row ended within a document, after 6 tokens, and it has 3. The data or its"):
        other.set_state(rows.get_state())


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=25).filter(any),
    capacity=st.integers(1, 20),
    cap=st.integers(1, 4),
    longest=st.integers(1, 25),
)
def test_rows_of_a_number_of_documents_are_those_that_are_planned_on_lengths(
    grain_of: Build, lengths: list[int], capacity: int, cap: int, longest: int
) -> None:
    context = {"max_context_length": longest, "num_tokens_per_batch": capacity, "max_num_documents": cap}
    config = ConcatThenSplitPackingConfig(dataset=documents(lengths), last_row="pad")
    rows = held(list(grain_of(config, context=context)))
    plan = plan_packs(lengths, capacity, strategy="concat_then_split", max_documents=cap, max_span=longest)
    planned = [
        [ids_of(span.sample, lengths[span.sample])[span.start : span.stop].tolist() for span in plan.spans(pack)]
        for pack in range(len(plan))
    ]
    assert rows == planned


@pytest.mark.parametrize("overflow", ["drop", "truncate", "split"])
@pytest.mark.parametrize("cap", [None, 2])
def test_first_fit_loses_no_token_that_it_does_not_count(
    grain_of: Build, graph_rows: Rows, overflow: Any, cap: int | None
) -> None:
    config = FirstFitPackingConfig(dataset=documents(LENGTHS), overflow=overflow, num_packing_bins=2, name="pack")
    dataset = grain_of(config, context={"max_num_documents": cap}, shuffle=True)
    rows = graph_rows(dataset)
    ledger = graph_ledger(dataset)
    ledger.check()
    given = sorted(token for row in held(rows) for part in row for token in part)
    assert len(given) == len(set(given)) == ledger["pack"].tokens_out
    assert all(len(part) <= 8 for row in held(rows) for part in row)
    assert all(cap is None or len(row) <= cap for row in held(rows))
    lost = dict(ledger["pack"].tokens_left_out)
    expected = {"drop": {"too_long": 9 + 14 + 20}, "truncate": {"truncated": 1 + 6 + 12}, "split": {}}
    assert lost == expected[overflow]
    if overflow == "split":
        assert given == sorted(t for number, length in enumerate(LENGTHS) for t in ids_of(number, length).tolist())


def test_packing_that_is_given_nothing_that_fits_ends_with_a_sentence(grain_of: Build) -> None:
    rows = iter(grain_of(FirstFitPackingConfig(dataset=documents([9, 20, 14], name="long"), name="packs"), repeat=True))
    message = r"Each of the last 5,000 samples was left out. packs: .* too long. Raise max_context_length"
    with pytest.raises(DataError, match=message):
        next(rows)


def test_a_document_that_is_too_long_can_be_an_error(grain_of: Build, graph_rows: Rows) -> None:
    config = FirstFitPackingConfig(dataset=documents([3, 9]), overflow="error")
    message = (
        "Sample 1 to be packed has a document of 9 tokens, and max_context_length is 8. Raise that, or set overflow"
    )
    with pytest.raises(DataError, match=message):
        graph_rows(grain_of(config))


def test_next_fit_leaves_documents_in_order_and_closes_a_row_where_the_next_has_no_room(
    grain_of: Build, graph_rows: Rows
) -> None:
    lengths = LENGTHS * 20
    config = FirstFitPackingConfig(dataset=documents(lengths), strategy="next_fit", overflow="truncate")
    context = {"max_context_length": 12, "num_tokens_per_batch": 20}
    rows = held(graph_rows(grain_of(config, context=context)))
    expected = [ids_of(number, min(length, 12)).tolist() for number, length in enumerate(lengths)]
    assert [part for row in rows for part in row] == expected
    short = [k for k, (row, then) in enumerate(itertools.pairwise(rows)) if sum(map(len, [*row, then[0]])) <= 20]
    assert short == [64]  # where a group ends


@pytest.mark.parametrize("strategy", ["best_fit_decreasing", "first_fit", "next_fit"])
@pytest.mark.parametrize("bins", [1, 3])
def test_first_fit_goes_on_from_any_of_its_states(grain_of: Build, strategy: Any, bins: int) -> None:
    config = FirstFitPackingConfig(
        dataset=documents(LENGTHS * 4), num_packing_bins=bins, overflow="split", strategy=strategy
    )
    rows = check_every_state(lambda: grain_of(config, shuffle=True))
    assert sum(len(part) for row in held(rows) for part in row) == 4 * sum(LENGTHS)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=60).filter(any),
    bins=st.integers(1, 3),
    cap=st.none() | st.integers(1, 4),
    overflow=st.sampled_from(["drop", "truncate", "split"]),
    longest=st.integers(1, 25),
    stop=st.integers(0, 20),
)
def test_whatever_is_packed_is_given_or_counted_and_goes_on_anywhere(
    grain_of: Build, lengths: list[int], bins: int, cap: int | None, overflow: Any, longest: int, stop: int
) -> None:
    context = {"max_context_length": longest, "num_tokens_per_batch": 20, "max_num_documents": cap}
    config = FirstFitPackingConfig(dataset=documents(lengths), num_packing_bins=bins, overflow=overflow)
    dataset = grain_of(config, context=context, shuffle=True)
    once = iter(dataset)
    rows = list(itertools.islice(once, stop))
    state = json.loads(json.dumps(once.get_state()))
    rest = list(once)
    graph_ledger(dataset).check()
    assert graph_ledger(dataset).nodes[0].tokens_in == sum(lengths)
    assert all(len(part) <= longest for row in held(rows + rest) for part in row)
    assert all(cap is None or len(row) <= cap for row in held(rows + rest))
    again = iter(grain_of(config, context=context, shuffle=True))
    again.set_state(state)
    assert as_lists(list(again)) == as_lists(rest)


def test_rows_are_given_as_soon_as_they_are_full(grain_of: Build) -> None:
    lengths = [8, 8, *[1] * 100]
    dataset = grain_of(FirstFitPackingConfig(dataset=documents(lengths), num_packing_bins=8))
    assert held([next(iter(dataset))]) == [[list(range(1, 9)), list(range(101, 109))]]
    assert graph_ledger(dataset).nodes[-1].rows_in == 2


def test_packed_rows_of_any_kind_can_be_packed_again(grain_of: Build, graph_rows: Rows) -> None:
    inner = ConcatThenSplitPackingConfig(dataset=documents([3, 4, 2, 5, 1]), last_row="pad")
    context = {"max_num_documents": 2}
    config = FirstFitPackingConfig(dataset=inner)
    rows = graph_rows(grain_of(config, context={**context, "max_num_documents": 4}))
    assert sorted(part for row in held(rows) for part in row) == [
        ids_of(number, length).tolist() for number, length in enumerate([3, 4, 2, 5, 1])
    ]
    check_every_state(lambda: grain_of(config, context=context, shuffle=True))


def test_what_packing_is_given_and_can_not_be_packed_is_named(grain_of: Build, graph_rows: Rows) -> None:
    config = FirstFitPackingConfig(dataset=SingleDatasetConfig(source=["text"]))
    with pytest.raises(DataError, match="A row to be packed is a str, and has to be a TextSequence.*Set processor to"):
        graph_rows(grain_of(config))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"input_ids": [1, 2], "labels": [1]}, r"input_ids \[2\] of int64 and labels \[1\] of int64. Give whole"),
        ({"input_ids": [1.5], "labels": [1]}, r"input_ids \[1\] of float64"),
        ({"input_ids": [[1]], "labels": [[1]]}, r"input_ids \[1, 1\]"),
    ],
)
def test_ids_and_labels_that_do_not_belong_together_are_named(
    grain_of: Build, graph_rows: Rows, row: Any, told: str
) -> None:
    with pytest.raises(DataError, match=told):
        graph_rows(grain_of(ConcatThenSplitPackingConfig(dataset=SingleDatasetConfig(source=[row]))))


def sample(number: int, length: int, num_images: int) -> dict[str, Any]:
    ids = ids_of(number, length)
    images = [np.full((2, 3), number) for _ in range(num_images)]
    return {"input_ids": ids, "labels": ids + 1, "positions": np.arange(length), "pixel_values": images}


def test_samples_with_images_keep_them_and_a_row_has_no_more_than_it_may(grain_of: Build, graph_rows: Rows) -> None:
    samples = [sample(0, 4, 2), sample(1, 3, 1), sample(2, 5, 3), sample(3, 2, 0), sample(4, 20, 1), sample(5, 2, 4)]
    config = MMSamplePackingConfig(dataset=SingleDatasetConfig(source=samples), max_images_per_row=3, name="pack")
    dataset = grain_of(config, context={"tokenizer": SimpleNamespace(pad_id=77)})
    rows = graph_rows(dataset)
    for row in rows:
        numbers = [part[0] // 100 for part in held([row])[0]]
        images = [int(image[0, 0]) for image in row["pixel_values"]]
        assert images == [number for number in numbers for _ in samples[number]["pixel_values"]]
        assert len(images) <= 3
        assert row["input_ids"][row["padding_mask"]].tolist() == [77] * int(row["padding_mask"].sum())
    assert sorted(part[0] // 100 for row in held(rows) for part in row) == [0, 1, 2, 3]
    assert dict(graph_ledger(dataset)["pack"].rows_left_out) == {"too_long": 1, "over_cap": 1}
    graph_ledger(dataset).check()


def test_a_video_counts_for_its_grids_and_a_row_of_text_for_none(grain_of: Build, graph_rows: Rows) -> None:
    clips = [SimpleNamespace(grid_thw=(3, 2, 2)), np.zeros((2, 4, 4, 3))]
    text = TextSequence(input_ids=ids_of(1, 2), labels=ids_of(1, 2) + 1)
    first, last = (
        {**sample(number, 3, 1 - number // 2), "pixel_values_videos": [clip]}
        for number, clip in zip((0, 2), clips, strict=True)
    )
    samples = [first, text, last]
    config = MMSamplePackingConfig(dataset=SingleDatasetConfig(source=samples), max_images_per_row=4)
    rows = graph_rows(grain_of(config, context={"tokenizer": SimpleNamespace(pad_id=0)}))
    assert [[part[0] // 100 for part in row] for row in held(rows)] == [[0, 1], [2]]
    assert [len(row["pixel_values_videos"]) for row in rows] == [1, 1]


def test_rows_with_images_need_a_token_to_fill_them(grain_of: Build) -> None:
    config = MMSamplePackingConfig(dataset=SingleDatasetConfig(source=[sample(0, 4, 1)]))
    with pytest.raises(ConfigError, match="fills rows with the tokenizer's pad_id, and that of a NoneType is None"):
        grain_of(config)


def test_a_graph_that_is_set_back_counts_what_it_lets_go(grain_of: Build) -> None:
    dataset = grain_of(FirstFitPackingConfig(dataset=documents(LENGTHS), overflow="split", num_packing_bins=2))
    rows = iter(dataset)
    state = rows.get_state()
    list(itertools.islice(rows, 3))
    rows.set_state(state)
    list(rows)
    ledger = graph_ledger(dataset)
    ledger.check()
    assert ledger.nodes[0].tokens_left_out["set_back"] > 0
